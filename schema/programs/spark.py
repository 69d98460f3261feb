{head}from pyspark.sql.functions import col, from_json

key = "{key}"
value = r"""STRUCT<
{members}
>"""

{name} = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "{brokers}")
    .option("kafka.isolation.level", "read_committed")
    .option("subscribe", "{topic}")
    .option("startingOffsets", "earliest")
    .load()
    .where(col("value").isNotNull())  # a tombstone follows each delete
    .select(
        from_json(col("key").cast("string"), key).alias("key"),
        from_json(col("value").cast("string"), value).alias("value"),
        "topic", "partition", "offset", "timestamp",
    )
)
