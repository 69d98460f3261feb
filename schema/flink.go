package schema

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/internal/fault"
)

var flinkTypes = nested{record: "ROW", colon: " "}

// flink reads the changes as Debezium's. Its columns are the key's and the object's.
func flink(t Table) (string, error) {
	if err := t.nameForFlink(); err != nil {
		return "", err
	}
	types := "A member whose type has changed is null in rows of the other type (ignore-parse-errors). Without " +
		"before-images that " +
		"setting skips updates and deletes, silently: use flink-upsert then."
	prefix, head := t.keyPrefix(), []string{t.title() + ": the objects as they are, and as they change.",
		"It needs KUBECDC_BEFORE=full, the default. Compaction may leave nothing of an object but an update: the primary key " +
			"and this setting make an insert of it."}
	return t.flinkTable("flink.sql", t.name(), t.Object, prefix, types, head, "fields", prefix+strings.Join(key, ";"+prefix),
		"format", t.flinkFormat("value", "debezium-json", "debezium-avro-confluent", ignoreErrors)), nil
}

// flinkUpsert reads each key's last record, whether or not records have before-images.
func flinkUpsert(t Table) (string, error) {
	if err := t.nameForFlink(); err != nil {
		return "", err
	}
	if t.Encoding == "object" { // a delete is only a tombstone
		return t.flinkUpsertTable(t.name(), t.Object, t.keyPrefix(), "."), nil
	}
	log := record(append([]Field{field("after", t.Object)}, t.envelopeFields()...)...)
	var columns []string
	for _, f := range t.Object.Fields {
		columns = append(columns, fmt.Sprintf("`after`.%s AS %s", quote("`", f.Name), quote("`", t.unlikeKey(f.Name))))
	}
	return t.flinkUpsertTable(t.name()+"_log", log, "", ". It needs no before-images.") + fill("flink-view.sql",
		"view", quote("`", t.name()), "columns", strings.Join(columns, ",\n  "), "table", quote("`", t.name()+"_log")), nil
}

// flinkUpsertTable is a table of each key's last record, whose value has these members.
func (t *Table) flinkUpsertTable(name string, value *Type, prefix, needs string) string {
	types := "A member whose type has changed is null in rows of the other type (ignore-parse-errors); with the faster parser " +
		"all of " +
		"the row would be."
	return t.flinkTable("flink-upsert.sql", name, value, prefix, types, []string{t.title() + ": the objects as they are" + needs},
		"format", t.flinkFormat("value", "json", "avro-confluent", ignoreErrors,
			[2]string{"decode.json-parser.enabled", "false"}))
}

// flinkTable fills a statement. types describes how a member with a changed type is read, unless the records are in Avro.
func (t *Table) flinkTable(program, name string, value *Type, prefix, types string, head []string, more ...string) string {
	if t.Encoding == avroEncoding {
		types = avroTypes
	}
	var keys []string
	for _, name := range key {
		keys = append(keys, quote("`", prefix+name))
	}
	return fill(program, append(more, "head", comment("--", append(append(head, types), hidden(t.Object)...)...), "table",
		quote("`", name),
		"keys", strings.Join(keys, " STRING, ")+" STRING", "columns", flinkTypes.members(value, "  "), "primary",
		strings.Join(keys, ", "),
		"source", t.flinkSource(prefix))...)
}

// avroTypes describes how a member with a changed type is read (sinks/encoding/avro).
const avroTypes = "A member whose type has changed has a field for each type in the topic, such as replicas and " +
	"replicas_string, as the " +
	"registry's schema shows: name the one that you need."

var ignoreErrors = [2]string{"ignore-parse-errors", "true"}

// flinkFormat returns the options of the key's or the value's format. In Avro that is another format, with the registry instead
// of the settings.
func (t *Table) flinkFormat(part, json, avro string, settings ...[2]string) string {
	format := json
	if t.Encoding == avroEncoding {
		format, settings = avro, [][2]string{{"url", t.Registry}}
	}
	text := quote("'", part+".format") + " = " + quote("'", format)
	for _, s := range settings {
		text += ",\n  " + quote("'", part+"."+format+"."+s[0]) + " = " + quote("'", s[1])
	}
	return text
}

// nameForFlink gives the object's members the names that they have in the records.
func (t *Table) nameForFlink() error {
	if t.Encoding == avroEncoding {
		t.Object = inAvro(t.Object)
	}
	return flinkNames(t.Object)
}

// flinkNames refuses members that Flink can't name: its parser allows no line break in a name, not even in quotes.
func flinkNames(t *Type) error {
	if t.Elem != nil {
		return flinkNames(t.Elem)
	}
	for _, f := range t.Fields {
		if strings.ContainsAny(f.Name, "\n\r") {
			return fault.Usagef("Flink can't name the member %q, which has a line break: leave it out with --without, or "+
				"have what it is in as JSON with --json", f.Name)
		}
		if err := flinkNames(f.Type); err != nil {
			return err
		}
	}
	return nil
}

// flinkSource returns the options that both connectors share.
func (t *Table) flinkSource(prefix string) string {
	options := []string{
		"'topic' = " + quote("'", t.topic()),
		"'properties.bootstrap.servers' = " + quote("'", t.Brokers),
		"'properties.isolation.level' = 'read_committed'",
		t.flinkFormat("key", "json", "avro-confluent"),
		"'value.fields-include' = 'EXCEPT_KEY'",
	}
	if prefix != "" {
		options = append(options, "'key.fields-prefix' = "+quote("'", prefix))
	}
	return strings.Join(options, ",\n  ")
}

// keyPrefix is the prefix of the key's columns if the object has a member with such a name.
func (t *Table) keyPrefix() string {
	if slices.ContainsFunc(t.Object.Fields, func(f Field) bool { return slices.Contains(key, f.Name) }) {
		return "key_"
	}
	return ""
}

// unlikeKey returns a name for a member of the object that no column of the key has.
func (t *Table) unlikeKey(name string) string {
	if slices.Contains(key, name) {
		return name + "_"
	}
	return name
}
