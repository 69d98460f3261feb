# The objects as they are: of each key the last record counts.
import json

from kafka import KafkaConsumer, TopicPartition

TOPICS = ["kubecdc.pods", "kubecdc.configmaps"]

consumer = KafkaConsumer(
    bootstrap_servers="kafka-1:9092",
    isolation_level="read_committed",  # the default is read_uncommitted
    auto_offset_reset="earliest",
    enable_auto_commit=False,
)
partitions = [TopicPartition(t, p) for t in TOPICS for p in consumer.partitions_for_topic(t)]
consumer.assign(partitions)
ends = consumer.end_offsets(partitions)

objects = {}
while any(consumer.position(p) < ends[p] for p in partitions):
    for partition, messages in consumer.poll(timeout_ms=500).items():
        for message in messages:
            change = json.loads(message.value) if message.value else None  # None: a tombstone
            if change and change["op"] != "d":
                objects[message.topic, message.key] = change["after"]
            else:
                objects.pop((message.topic, message.key), None)

for (_, key), value in objects.items():
    print(json.dumps({"key": json.loads(key), "object": value}))
