package schema

import (
	"encoding/json"
	"strings"

	"kubecdc/internal/fault"
)

// connect writes a sink connector's properties, with the schema of Kafka Connect's JsonConverter. The converter reads only JSON
// strings as text. An object or a number would be null, so members of the kinds JSON and IntOrString are omitted.
func connect(t Table) (string, error) {
	if t.Encoding == "debezium-schema" {
		return connectWithSchema(t), nil
	}
	var left []string
	object := readable(t.Object, &left)
	if object == nil {
		return "", fault.Usage("JsonConverter can read none of these columns: " + strings.Join(left, ", "))
	}
	topic := t.topic()
	value := connectType(envelope(object))
	value.Name, value.Optional = topic+".Envelope", false
	value.Fields[0].Name, value.Fields[1].Name = topic+".Value", topic+".Value"
	keys := &connectSchema{Type: "struct", Name: topic + ".Key"}
	for _, name := range key {
		keys.Fields = append(keys.Fields, &connectSchema{Type: "string", Field: name})
	}
	valueText, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	keyText, err := json.Marshal(keys)
	if err != nil {
		return "", err
	}
	head := []string{t.title() + ": properties of a sink connector, Kafka Connect 4.2 or later (schema.content)."}
	if len(left) > 0 {
		head = append(head, "Left out, since JsonConverter reads no text but a JSON string: "+strings.Join(left, ", "))
	}
	if twins(object) {
		head = append(head, "Names of members differ by case alone: a JDBC sink needs quote.identifiers=true.")
	}
	head = append(head, hidden(object)...)
	return fill("connect.properties", "head", comment("#", head...), "topic", topic, "key", escapeProperty(string(keyText)),
		"value", escapeProperty(string(valueText))), nil
}

// connectWithSchema writes a sink connector's properties for records that contain their schema.
func connectWithSchema(t Table) string {
	return fill("connect-schema.properties", "topic", t.topic(), "head",
		comment("#", t.title()+": properties of a sink connector, for KUBECDC_ENCODING=debezium-schema.",
			"The columns are cluster, namespace, name, uid, api_version, kind, resource_version and object, which is the "+
				"object as JSON."))
}

// connectSchema is a schema as JsonConverter writes it.
type connectSchema struct {
	Type     string           `json:"type"`
	Name     string           `json:"name,omitempty"`
	Optional bool             `json:"optional"`
	Field    string           `json:"field,omitempty"`
	Fields   []*connectSchema `json:"fields,omitempty"`
	Items    *connectSchema   `json:"items,omitempty"`
	Keys     *connectSchema   `json:"keys,omitempty"`
	Values   *connectSchema   `json:"values,omitempty"`
}

func connectType(t *Type) *connectSchema {
	s := &connectSchema{Type: "string", Optional: true}
	switch t.Kind {
	case Integer:
		s.Type = "int64"
	case Number:
		s.Type = "double"
	case Boolean:
		s.Type = "boolean"
	case Map:
		s.Type, s.Keys, s.Values = "map", &connectSchema{Type: "string"}, connectType(t.Elem)
	case Array:
		s.Type, s.Items = "array", connectType(t.Elem)
	case Record:
		s.Type = "struct"
		for _, f := range t.Fields {
			member := connectType(f.Type)
			member.Field = f.Name
			s.Fields = append(s.Fields, member)
		}
	}
	return s
}

// readable returns the type without members of the kinds JSON and IntOrString. It appends their paths to left. It returns nil if
// nothing remains.
func readable(t *Type, left *[]string, path ...string) *Type {
	c := *t
	switch t.Kind {
	case JSON, IntOrString:
		*left = append(*left, strings.Join(path, "."))
		return nil
	case Map, Array:
		if c.Elem = readable(t.Elem, left, path...); c.Elem == nil {
			return nil
		}
	case Record:
		c.Fields = nil
		for _, f := range t.Fields {
			if f.Type = readable(f.Type, left, append(path[:len(path):len(path)], f.Name)...); f.Type != nil {
				c.Fields = append(c.Fields, f)
			}
		}
		if len(c.Fields) == 0 {
			return nil
		}
	}
	return &c
}

// escapeProperty escapes a value of a properties file.
func escapeProperty(value string) string { return strings.ReplaceAll(value, `\`, `\\`) }
