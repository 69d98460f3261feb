package encoding

import (
	"context"
	"encoding/json"
	"fmt"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// debeziumSchema is a Debezium record with its schema, as Kafka Connect's JsonConverter writes it (schemas.enable=true). before
// and after are flat rows, as a JDBC sink needs them. The column object has the object as text.
type debeziumSchema struct{}

func (debeziumSchema) Name() string { return "debezium-schema" }
func (debeziumSchema) Keys() string { return "debezium-schema" }

func (debeziumSchema) NewEncoder(e change.Envelope) Encoder {
	return &schemaEncoder{envelope: e, heads: map[*change.Stream]*schemaHeads{}, cluster: change.AppendString(nil, e.Cluster)}
}

func (debeziumSchema) DecodeKey(key []byte) (Key, error) {
	return plainKeys{}.DecodeKey(rawjson.Member(key, "payload"))
}

func (debeziumSchema) Decode(_ context.Context, value []byte, _ map[string]string) (d Decoded, err error) {
	v, err := change.Decode(rawjson.Member(value, "payload"))
	if err != nil {
		return d, err
	}
	d.Provenance = provenanceOf(v.Source)
	if d.Before, err = objectOf(v.Before); err == nil {
		d.After, err = objectOf(v.After)
	}
	return d, err
}

// objectOf returns the object in a row, or nil.
func objectOf(row []byte) ([]byte, error) {
	raw := rawjson.Member(row, "object")
	if row == nil || string(raw) == "null" {
		return nil, nil
	}
	text, ok := rawjson.Text(raw)
	if !ok {
		return nil, fmt.Errorf("decode record row %.80q: it has no object", row)
	}
	return []byte(text), nil
}

type schemaEncoder struct {
	envelope change.Envelope
	cluster  []byte // a JSON string
	heads    map[*change.Stream]*schemaHeads
	key      []byte
	record   []byte
	payload  []byte
	version  []byte
	parts    [2][]byte
}

// schemaHeads are the constant beginnings of the keys and values of a topic, up to the payload.
type schemaHeads struct{ key, value []byte }

func (e *schemaEncoder) Overhead() int { return 6000 }

// maxRetained is the largest buffer that is retained for the next record.
const maxRetained = 1 << 20

func (e *schemaEncoder) Encode(r *Record, c *change.Change, dead *change.DeadLetter) {
	heads := e.heads[c.Stream]
	if heads == nil {
		heads = newSchemaHeads(change.Topic(e.envelope.Prefix, c.Stream.Resource))
		e.heads[c.Stream] = heads
	}
	e.key = append(append(append(e.key[:0], heads.key...), r.Key...), '}')
	r.Key = e.key

	value := e.envelope.Value(e.record[:0], c, dead)
	e.record = value.Metadata()
	if cap(e.payload) > maxRetained {
		e.payload = nil
	}
	b := append(e.payload[:0], `{"before":`...)
	switch {
	case c.Before != nil:
		b = e.appendRow(b, c, rawjson.Member(rawjson.Member(c.Before, "metadata"), "resourceVersion"), c.Before)
	case c.Op == change.Delete: // the row's key, as for a table without a full replica identity
		b = e.appendRow(b, c, nil, nil)
	default:
		b = append(b, `null`...)
	}
	b = append(b, `,"after":`...)
	if c.After == nil {
		b = append(b, `null`...)
	} else {
		e.version = change.AppendString(e.version[:0], string(c.ResourceVersion))
		b = e.appendRow(b, c, e.version, c.After)
	}
	e.payload = append(append(b, e.record...), '}')
	e.parts = [2][]byte{heads.value, e.payload}
	r.Value = e.parts[:]
}

// appendRow appends a row. version is a JSON string, or nil.
func (e *schemaEncoder) appendRow(dst []byte, c *change.Change, version, object []byte) []byte {
	resource := c.Stream.Objects()
	dst = append(append(dst, `{"cluster":`...), e.cluster...)
	dst = change.AppendString(append(dst, `,"namespace":`...), c.Namespace)
	dst = change.AppendString(append(dst, `,"name":`...), c.Name)
	dst = change.AppendString(append(dst, `,"uid":`...), c.UID)
	dst = change.AppendString(append(dst, `,"api_version":`...), resource.APIVersion())
	dst = change.AppendString(append(dst, `,"kind":`...), resource.Kind)
	dst = append(dst, `,"resource_version":`...)
	if version == nil {
		dst = append(dst, `null`...)
	} else {
		dst = append(dst, version...)
	}
	dst = append(dst, `,"object":`...)
	if object == nil {
		return append(dst, `null}`...)
	}
	return append(appendText(dst, object), '}')
}

// connectField is a schema of Kafka Connect, as JsonConverter writes it.
type connectField struct {
	Type     string         `json:"type"`
	Optional bool           `json:"optional"`
	Name     string         `json:"name,omitempty"`
	Version  int            `json:"version,omitempty"`
	Field    string         `json:"field,omitempty"`
	Fields   []connectField `json:"fields,omitempty"`
}

func newSchemaHeads(topic string) *schemaHeads {
	required := func(names ...string) (fields []connectField) {
		for _, name := range names {
			fields = append(fields, connectField{Type: "string", Field: name})
		}
		return fields
	}
	optional := func(kind string, names ...string) (fields []connectField) {
		for _, name := range names {
			fields = append(fields, connectField{Type: kind, Optional: true, Field: name})
		}
		return fields
	}
	struct_ := func(name, field string, isOptional bool, fields ...[]connectField) connectField {
		s := connectField{Type: "struct", Name: name, Field: field, Optional: isOptional}
		for _, f := range fields {
			s.Fields = append(s.Fields, f...)
		}
		return s
	}
	key := required("cluster", "namespace", "name")
	text := connectField{Type: "string", Optional: true, Name: "io.debezium.data.Json", Version: 1, Field: "object"}
	columns := append(append(key[:len(key):len(key)],
		optional("string", "uid", "api_version", "kind", "resource_version")...), text)
	times := []string{"ts_ms", "ts_us", "ts_ns"}
	source := struct_("dev.kubecdc.Source", "source", false, required("version", "connector", "name"),
		optional("int64", times...),
		optional("string", "ts_from", "snapshot", "db", "schema", "table", "group", "apiVersion", "kind", "uid",
			"resourceVersion",
			"sequence", "stream"), optional("boolean", "inferred"),
		optional("string", "gap", "managers", "fieldsChanged", "dead_letter", "error"))
	value := struct_(topic+".Envelope", "", false, []connectField{struct_(topic+".Value", "before", true, columns),
		struct_(topic+".Value", "after", true, columns)}, required("op"), optional("int64", times...), []connectField{source})
	return &schemaHeads{key: schemaHead(struct_(topic+".Key", "", false, key)), value: schemaHead(value)}
}

func schemaHead(schema connectField) []byte {
	text, _ := json.Marshal(schema) // can't fail: strings, numbers and lists
	return fmt.Appendf(nil, `{"schema":%s,"payload":`, text)
}
