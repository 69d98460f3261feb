package schema

import (
	"fmt"
	"strings"
)

// clickhouse reads the topic into a table that keeps the newest row of each key, column by column out of the JSON: a tuple could
// not be null.
func clickhouse(t Table) (string, error) {
	fixed := []string{"cluster", "namespace", "name", "version", "deleted", "time"}
	columns, err := flatten(t.Object, fixed...)
	if err != nil {
		return "", err
	}
	var types, values []string
	for _, c := range columns {
		typ, value := c.clickhouse()
		types = append(types, "  "+clickhouseName(c.name)+" "+typ)
		values = append(values, "  "+value+" AS "+clickhouseName(c.name))
	}
	table, queue := clickhouseName(t.name()), clickhouseName(t.name()+"_queue")
	return comment("--", t.title()+": the objects as they are. Maps, lists and objects without a schema are JSON texts.",
		"Kafka's client in ClickHouse reads committed records only, by default.") +
		`CREATE TABLE ` + queue + ` (raw String) ENGINE = Kafka SETTINGS
  kafka_broker_list = ` + clickhouseText(t.Brokers) + `,
  kafka_topic_list = ` + clickhouseText(t.topic()) + `,
  kafka_group_name = ` + clickhouseText("clickhouse-"+t.name()) + `,
  kafka_format = 'JSONAsString';

-- FINAL leaves out older rows and deleted objects: SELECT … FROM ` + table + ` FINAL
CREATE TABLE ` + table + ` (
  cluster String, namespace String, name String,
  version UInt64, deleted UInt8, time DateTime64(3),
` + strings.Join(types, ",\n") + `
) ENGINE = ReplacingMergeTree(version, deleted)
ORDER BY (cluster, namespace, name);

CREATE MATERIALIZED VIEW ` + clickhouseName(t.name()+"_consumer") + ` TO ` + table + ` AS SELECT
  JSONExtractString(_key, 'cluster') AS cluster,
  JSONExtractString(_key, 'namespace') AS namespace,
  JSONExtractString(_key, 'name') AS name,
  toUInt64(JSONExtractString(raw, 'source', 'resourceVersion')) AS version,
  JSONExtractString(raw, 'op') = 'd' AS deleted,
  fromUnixTimestamp64Milli(JSONExtractInt(raw, 'ts_ms')) AS time,
` + strings.Join(values, ",\n") + `
FROM ` + queue + `
WHERE JSONHas(raw, 'op'); -- a tombstone has none
`, nil
}

// clickhouse returns the column's type, and its value out of a record.
func (c *column) clickhouse() (typ, value string) {
	path := "raw, 'after'"
	for _, name := range c.path {
		path += ", " + clickhouseText(name)
	}
	switch c.kind {
	case String:
		typ = "Nullable(String)"
	case Integer:
		typ = "Nullable(Int64)"
	case Number:
		typ = "Nullable(Float64)"
	case Boolean:
		typ = "Nullable(Bool)"
	case IntOrString:
		return "String", fmt.Sprintf("trim(BOTH '\"' FROM JSONExtractRaw(%s))", path)
	default:
		return "String", fmt.Sprintf("JSONExtractRaw(%s)", path)
	}
	return typ, fmt.Sprintf("JSONExtract(%s, '%s')", path, typ)
}

// clickhouseName quotes a name. ClickHouse reads backslashes in names too.
func clickhouseName(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

func clickhouseText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
