package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// avro describes a record's value as the exporter writes it with KUBECDC_ENCODING=avro (sinks/encoding/avro). The records are
// named by their paths, and the namespace is the topic's name. A member is a union with null. JSON is a string with the name by
// which Debezium's sinks recognize it. Each record has _extra, a JSON object of the members that have no field, or whose values
// don't fit theirs.
func avro(t Table) (string, error) { return indented(avroEnvelope(t.topic(), t.Object)) }

// Avro returns the schema of a topic's values as the exporter registers it.
func Avro(topic string, object *Type) string { return avroText(avroEnvelope(topic, object)) }

func avroEnvelope(topic string, object *Type) *avroRecord {
	w := avroWriter{map[string]bool{}, map[string]string{}}
	root := w.definition("Envelope", record(fieldOf("before", String), fieldOf("after", String), field("source", avroSource),
		fieldOf("op", String), fieldOf("ts_ms", Integer), fieldOf("ts_us", Integer), fieldOf("ts_ns", Integer)))
	root.Namespace = avroNamespace(topic)
	value := w.definition("Value", object)
	root.Fields[0].Type, root.Fields[1].Type = []any{"null", value}, []any{"null", value.Name}
	return root
}

// avroSource has all members of source.
var avroSource = record(append(source.Fields[:len(source.Fields):len(source.Fields)], fieldOf("ts_us", Integer),
	fieldOf("ts_ns", Integer), fieldOf("ts_from", String), fieldOf("sequence", String), fieldOf("managers", String),
	fieldOf("fieldsChanged", String))...)

// AvroKey describes the keys of a topic's records.
func AvroKey(topic string) string {
	r := &avroRecord{Type: "record", Name: "Key", Namespace: avroNamespace(topic)}
	for _, name := range key {
		r.Fields = append(r.Fields, avroField{Name: name, Type: "string"})
	}
	return avroText(r)
}

func avroText(r *avroRecord) string {
	text, _ := json.Marshal(r) // strings and booleans only: can't fail
	return string(text)
}

type avroRecord struct {
	Type      string      `json:"type"`
	Name      string      `json:"name"`
	Namespace string      `json:"namespace,omitempty"`
	Fields    []avroField `json:"fields"`
}

type avroField struct {
	Name    string `json:"name"`
	JSON    string `json:"json,omitempty"` // the member's name, if Avro does not allow it
	Type    any    `json:"type"`
	Default any    `json:"default,omitempty"` // avroNull, or omitted
	Open    *bool  `json:"open,omitempty"`    // only for _extra: the API allows members that its schema does not name
}

var (
	avroNull = json.RawMessage("null")
	avroJSON = map[string]any{"type": "string", "connect.name": "io.debezium.data.Json", "connect.version": 1}
	avroInt  = map[string]any{"type": "string", "format": "int-or-string"}
)

// maxAvroName limits the length of a name. Avro itself has no limit.
const maxAvroName = 1000

type avroWriter struct {
	names map[string]bool   // the records' names
	known map[string]string // the name of a record, by its fields
}

// record describes a record, or returns the name of one that has the same fields. An API has many of those, and a registry may
// refuse a schema of a megabyte.
func (w avroWriter) record(name string, t *Type) any {
	r := w.definition(name, t)
	fields, _ := json.Marshal(r.Fields) // strings and booleans only: can't fail
	if known := w.known[string(fields)]; known != "" {
		delete(w.names, r.Name)
		return known
	}
	w.known[string(fields)] = r.Name
	return r
}

func (w avroWriter) definition(name string, t *Type) *avroRecord {
	r := &avroRecord{Type: "record", Name: unique(w.names, avroName(name), maxAvroName)}
	fields := map[string]bool{}
	for _, f := range t.Fields {
		legal := unique(fields, avroName(f.Name), maxAvroName)
		written := avroField{Name: legal, Type: []any{"null", w.typeOf(name+"_"+f.Name, f.Type)}, Default: avroNull}
		if legal != f.Name {
			written.JSON = f.Name
		}
		r.Fields = append(r.Fields, written)
	}
	r.Fields = append(r.Fields, avroField{Name: unique(fields, "_extra", maxAvroName), Type: []any{"null", avroJSON},
		Default: avroNull, Open: &t.Open})
	return r
}

// inAvro returns the type with the names that members have in Avro. Where the API allows other members, it has _extra.
func inAvro(t *Type) *Type {
	named := &Type{Kind: t.Kind}
	if t.Elem != nil {
		named.Elem = inAvro(t.Elem)
	}
	taken := map[string]bool{}
	for _, f := range t.Fields {
		named.Fields = append(named.Fields, field(unique(taken, avroName(f.Name), maxAvroName), inAvro(f.Type)))
	}
	if t.Open {
		named.Fields = append(named.Fields, fieldOf(unique(taken, "_extra", maxAvroName), JSON))
	}
	return named
}

func (w avroWriter) typeOf(path string, t *Type) any {
	switch t.Kind {
	case Integer:
		return "long"
	case Number:
		return "double"
	case Boolean:
		return "boolean"
	case Map:
		return map[string]any{"type": "map", "values": []any{"null", w.typeOf(path, t.Elem)}}
	case Array:
		return map[string]any{"type": "array", "items": []any{"null", w.typeOf(path, t.Elem)}}
	case Record:
		return w.record(path, t)
	case IntOrString:
		return avroInt
	case JSON:
		return avroJSON
	}
	return "string"
}

// avroName returns the name with an underscore for each character that Avro does not allow.
func avroName(name string) string {
	legal := []byte(name)
	for i, c := range legal {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			legal[i] = '_'
		}
	}
	if len(legal) == 0 || legal[0] >= '0' && legal[0] <= '9' {
		return "_" + string(legal)
	}
	return string(legal)
}

func avroNamespace(topic string) string {
	names := strings.Split(topic, ".")
	for i, name := range names {
		names[i] = avroName(name)
	}
	return strings.Join(names, ".")
}

// names matches a list of texts that is spread over lines.
var names = regexp.MustCompile(`\[\s+"[^"\\]*"(,\s+"[^"\\]*")*\s+\]`)

// indented returns the document as text, with lists of names on one line.
func indented(document any) (string, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	joined := names.ReplaceAllFunc(text, func(list []byte) []byte {
		var b bytes.Buffer
		err = errors.Join(err, json.Compact(&b, list))
		return b.Bytes()
	})
	return string(joined) + "\n", err
}
