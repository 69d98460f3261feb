# The objects as they are: of each key the last record counts.
import asyncio
import json

from aiokafka import AIOKafkaConsumer, TopicPartition

TOPICS = ["kubecdc.pods", "kubecdc.configmaps"]


async def main():
    consumer = AIOKafkaConsumer(
        *TOPICS,
        bootstrap_servers="kafka-1:9092",
        isolation_level="read_committed",  # the default is read_uncommitted
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    partitions = [TopicPartition(t, p) for t in TOPICS for p in consumer.partitions_for_topic(t)]
    ends = await consumer.end_offsets(partitions)

    objects = {}
    while [p for p in partitions if await consumer.position(p) < ends[p]]:
        for messages in (await consumer.getmany(timeout_ms=500)).values():
            for message in messages:
                change = json.loads(message.value) if message.value else None  # None: a tombstone
                if change and change["op"] != "d":
                    objects[message.topic, message.key] = change["after"]
                else:
                    objects.pop((message.topic, message.key), None)
    await consumer.stop()

    for (_, key), value in objects.items():
        print(json.dumps({"key": json.loads(key), "object": value}))


asyncio.run(main())
