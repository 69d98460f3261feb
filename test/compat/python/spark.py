# Runs the program of a file as it is until the end of the topic, and prints the objects that its stream leaves, as JSON. The next run
# with the same folder goes on from there.
#
#   spark.py PROGRAM FOLDER JARS
import json
import pathlib
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import to_json

program, folder, jars = sys.argv[1:]
table = pathlib.Path(folder, "objects.json")
objects = json.loads(table.read_text()) if table.exists() else {}


def apply(batch, _):
    records = batch.select("partition", "offset", to_json("key").alias("key"), to_json("value").alias("value")).collect()
    for record in sorted(records, key=lambda r: (r.partition, r.offset)):
        change = json.loads(record.value)
        if change["op"] == "d":
            objects.pop(record.key, None)
        else:
            objects[record.key] = change["after"]
    table.write_text(json.dumps(objects))


spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", ",".join(map(str, pathlib.Path(jars).glob("*.jar"))))
    .config("spark.ui.enabled", "false")
    .config("spark.local.dir", folder)
    .getOrCreate()
)
names = {"spark": spark}
exec(pathlib.Path(program).read_text(), names)
stream = names["pods"].writeStream.foreachBatch(apply).option("checkpointLocation", folder + "/checkpoint")
stream.trigger(availableNow=True).start().awaitTermination()
for key, value in objects.items():
    print(json.dumps(json.loads(key) | value))
