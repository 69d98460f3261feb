package schema

import "strings"

var sparkTypes = nested{record: "STRUCT", colon: ": "}

// spark parses the records with from_json, in Python. Spark takes a colon after a member's name only within STRUCT<>.
func spark(t Table) (string, error) {
	value := record(append([]Field{field("before", t.Object), field("after", t.Object)}, about...)...)
	head := append([]string{t.title()}, hidden(t.Object)...)
	if twins(t.Object) {
		head = append(head, "Names of members differ by case alone: spark.conf.set(\"spark.sql.caseSensitive\", \"true\") comes first.")
	}
	return comment("#", head...) + `from pyspark.sql.functions import col, from_json

key = "` + sparkKey() + `"
value = r"""STRUCT<
` + strings.ReplaceAll(sparkTypes.members(value, "  "), `"""`, `""" '"""' r"""`) + `
>"""

` + pythonName(t.name()) + ` = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "` + t.Brokers + `")
    .option("kafka.isolation.level", "read_committed")
    .option("subscribe", "` + t.topic() + `")
    .option("startingOffsets", "earliest")
    .load()
    .where(col("value").isNotNull())  # a tombstone follows each delete
    .select(
        from_json(col("key").cast("string"), key).alias("key"),
        from_json(col("value").cast("string"), value).alias("value"),
        "topic", "partition", "offset", "timestamp",
    )
)
`, nil
}

func sparkKey() string { return strings.Join(key, " STRING, ") + " STRING" }

// pythonName returns a name that Python takes: a group may have dashes.
func pythonName(name string) string { return strings.ReplaceAll(name, "-", "_") }
