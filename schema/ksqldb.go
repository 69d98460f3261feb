package schema

import "strings"

var ksqlTypes = nested{record: "STRUCT", colon: " "}

// ksqldb reads the changes as a stream, and the last record of each key as a table.
func ksqldb(t Table) (string, error) {
	stream := record(append([]Field{field("before", t.Object), field("after", t.Object)}, about...)...)
	table := record(append([]Field{field("after", t.Object)}, about...)...)
	with := ") WITH (KAFKA_TOPIC = " + quote("'", t.topic()) + ", KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');\n"
	head := append([]string{
		t.title(),
		"The server needs ksql.streams.isolation.level=read_committed.",
	}, hidden(t.Object)...)
	return comment("--", head...) + `SET 'auto.offset.reset' = 'earliest';

-- Every change.
CREATE STREAM ` + quote("`", t.name()+"_changes") + ` (
` + ksqlKey("KEY") + `,
` + ksqlTypes.members(stream, "  ") + `
` + with + `
` + comment("--", "The objects as they are. A delete is a record with op d whose after is null, then a tombstone, which "+
		"deletes the row: leave out what has op d (WHERE `op` <> 'd').") + `CREATE TABLE ` + quote("`", t.name()) + ` (
` + ksqlKey("PRIMARY KEY") + `,
` + ksqlTypes.members(table, "  ") + `
` + with, nil
}

func ksqlKey(mark string) string {
	var columns []string
	for _, name := range key {
		columns = append(columns, quote("`", name)+" STRING "+mark)
	}
	return "  " + strings.Join(columns, ", ")
}
