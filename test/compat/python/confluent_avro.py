# The pods as they are: of each key the last record counts.
import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = "kubecdc.pods"

registry = SchemaRegistryClient({"url": "https://registry.example.com:8081"})
deserialize = AvroDeserializer(registry)
in_key, in_value = (SerializationContext(TOPIC, field) for field in (MessageField.KEY, MessageField.VALUE))
consumer = Consumer({
    "bootstrap.servers": "kafka-1:9092",
    "group.id": "inventory",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # so that the end of each partition is told
})
partitions = consumer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
consumer.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in partitions])

objects = {}
unread = set(partitions)
while unread:
    message = consumer.poll()
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            raise KafkaException(message.error())
        unread.discard(message.partition())
        continue
    change = deserialize(message.value(), in_value)  # None: a tombstone, which follows each delete
    if change and change["op"] != "d":
        objects[message.key()] = change["after"]
    else:
        objects.pop(message.key(), None)

for key, pod in objects.items():
    print(json.dumps(deserialize(key, in_key) | {
        "metadata": {name: pod["metadata"][name] for name in ("uid", "labels")},
        "spec": {"nodeName": pod["spec"]["nodeName"]},
        "status": {"phase": pod["status"]["phase"]},
    }))
