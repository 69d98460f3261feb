package schema

import (
	"cmp"
	"encoding/json"
)

// JSONSchema describes a record's value in JSON Schema 2020-12, for a library that checks records by it. Members that the schema
// does not name are allowed everywhere, because a newer API server may have more.
func JSONSchema(t Table) (string, error) {
	kind := cmp.Or(t.Resource.Kind, "Object")
	image := map[string]any{"anyOf": []any{map[string]any{"$ref": "#/$defs/" + kind}, map[string]any{"type": "null"}}}
	text, err := json.Marshal(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "a record's value: " + t.title(),
		"type":    "object",
		"properties": map[string]any{
			"before": image,
			"after":  image,
			"op":     map[string]any{"enum": []string{"c", "u", "d", "r"}},
			"ts_ms":  map[string]any{"type": "integer"},
			"source": jsonType(source),
		},
		"required": []string{"before", "after", "op", "ts_ms", "source"},
		"$defs":    map[string]any{kind: jsonType(t.Object)},
	})
	return string(text), err
}

// jsonType returns the schema of a type.
func jsonType(t *Type) map[string]any {
	switch t.Kind {
	case String:
		return map[string]any{"type": []string{"string", "null"}}
	case IntOrString:
		return map[string]any{"type": []string{"integer", "string", "null"}}
	case Integer:
		return map[string]any{"type": []string{"integer", "null"}}
	case Number:
		return map[string]any{"type": []string{"number", "null"}}
	case Boolean:
		return map[string]any{"type": []string{"boolean", "null"}}
	case Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": jsonType(t.Elem)}
	case Array:
		return map[string]any{"type": []string{"array", "null"}, "items": jsonType(t.Elem)}
	case Record:
		members := map[string]any{}
		for _, f := range t.Fields {
			members[f.Name] = jsonType(f.Type)
		}
		return map[string]any{"type": []string{"object", "null"}, "properties": members}
	}
	return map[string]any{}
}
