package schema

import (
	"cmp"
	"strings"
)

// avro describes a record's value, for a converter to Avro. The records are named by their paths, the namespace is the topic's
// name. A member is a union with null. What is JSON is a string, and so are the members of a record that the schema does not
// name: _extra.
func avro(t Table) (string, error) {
	w := avroWriter{names: map[string]bool{}}
	root := w.record("Envelope", envelope(scalar(String)))
	kind := cmp.Or(t.Resource.Kind, "Object")
	root.Namespace = avroNames(strings.Split(t.topic(), "."))
	root.Fields[0].Type = []any{"null", w.record(kind, t.Object)}
	root.Fields[1].Type = []any{"null", kind}
	return indented(root)
}

type avroRecord struct {
	Type      string      `json:"type"`
	Name      string      `json:"name"`
	Namespace string      `json:"namespace,omitempty"`
	Fields    []avroField `json:"fields"`
}

type avroField struct {
	Name    string  `json:"name"`
	JSON    string  `json:"json,omitempty"` // the member's name, if Avro does not allow it
	Type    any     `json:"type"`
	Default *string `json:"default"` // always null
}

// maxAvroName is the length of a name; Avro itself has no limit.
const maxAvroName = 1000

type avroWriter struct{ names map[string]bool } // of records

func (w avroWriter) record(name string, t *Type) *avroRecord {
	r := &avroRecord{Type: "record", Name: unique(w.names, avroName(name), maxAvroName)}
	fields := map[string]bool{}
	for _, f := range t.Fields {
		legal := unique(fields, avroName(f.Name), maxAvroName)
		written := avroField{Name: legal, Type: []any{"null", w.typeOf(name+"_"+f.Name, f.Type)}}
		if legal != f.Name {
			written.JSON = f.Name
		}
		r.Fields = append(r.Fields, written)
	}
	if t.Open {
		r.Fields = append(r.Fields, avroField{Name: unique(fields, "_extra", maxAvroName), Type: []any{"null", "string"}})
	}
	return r
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
	if legal[0] >= '0' && legal[0] <= '9' {
		return "_" + string(legal)
	}
	return string(legal)
}

func avroNames(names []string) string {
	for i, name := range names {
		names[i] = avroName(name)
	}
	return strings.Join(names, ".")
}
