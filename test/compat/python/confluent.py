# The objects as they are: of each key the last record counts.
import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

TOPICS = ["kubecdc.pods", "kubecdc.configmaps"]

consumer = Consumer({
    "bootstrap.servers": "kafka-1:9092",
    "group.id": "inventory",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # so that the end of each partition is told
})
known = consumer.list_topics(timeout=10).topics
partitions = [TopicPartition(t, p, OFFSET_BEGINNING) for t in TOPICS for p in known[t].partitions]
consumer.assign(partitions)

objects = {}
unread = {(p.topic, p.partition) for p in partitions}
while unread:
    message = consumer.poll()
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            raise KafkaException(message.error())
        unread.discard((message.topic(), message.partition()))
        continue
    change = json.loads(message.value()) if message.value() else None  # None: a tombstone, which follows each delete
    if change and change["op"] != "d":
        objects[message.topic(), message.key()] = change["after"]
    else:
        objects.pop((message.topic(), message.key()), None)

for (_, key), value in objects.items():
    print(json.dumps({"key": json.loads(key), "object": value}))
