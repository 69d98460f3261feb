package schema

import "strings"

var sparkTypes = nested{record: "STRUCT", colon: ": "}

// spark parses the records with from_json, in Python. Spark allows a colon after a member's name only in STRUCT<>.
func spark(t Table) (string, error) {
	value := record(append([]Field{field("before", t.Object), field("after", t.Object)}, envelopeFields...)...)
	head := append([]string{t.title()}, hidden(t.Object)...)
	if twins(t.Object) {
		head = append(head, "Names of members differ by case alone: spark.conf.set(\"spark.sql.caseSensitive\", \"true\") "+
			"comes first.")
	}
	return fill("spark.py", "head", comment("#", head...), "key", strings.Join(key, " STRING, ")+" STRING",
		"members", strings.ReplaceAll(sparkTypes.members(value, "  "), `"""`, `""" '"""' r"""`),
		"name", strings.ReplaceAll(t.name(), "-", "_"), // a group may contain dashes, a name in Python may not
		"brokers", t.Brokers, "topic", t.topic()), nil
}
