package avro_test

import (
	"fmt"
	"testing"

	"kubecdc/schema"
	"kubecdc/sinks/encoding/avro"
)

// Members remain separate if Avro does not allow their names, if their legal names are the same, or if one is _extra. That also
// holds when the schema grows by them.
func TestNamesThatCollide(t *testing.T) {
	describe := func(properties string) string {
		crds, err := schema.ParseCRDs(fmt.Appendf(nil, `{"kind": "CustomResourceDefinition", "spec": {"group": "a.b", "scope": "Namespaced",
			"names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema":
			{"type": "object", "properties": {"spec": {"type": "object", "properties": {%s}}}}}}]}}`, properties))
		must(t, err)
		_, object, err := crds.Find("things.a.b")
		must(t, err)
		return schema.Avro("k.things.a.b", object)
	}
	one := `"a_b": {"type": "integer"}`
	all := describe(one + `, "a-b": {"type": "string"}, "a_b_2": {"type": "boolean"}, "_extra": {"type": "string"}, "1st": {"type": "string"},
		"ä\n\"": {"type": "object", "properties": {"x-y": {"type": "integer"}, "x_y": {"type": "string"}}}`)
	grown, _, err := avro.Grow(describe(one), all)
	must(t, err)
	for _, text := range []string{all, grown} {
		record := fmt.Appendf(nil, `{"before":null,"after":{"spec":{"a-b":"x","a_b":1,"a_b_2":true,"_extra":"{\"a_b\":2}","1st":"y","_1st":"z",
			"ä\n\"":{"x_y":"s","x-y":2}}},"source":{},"op":"c","ts_ms":1}`)
		if unknown := roundTrip(t, parse(t, text), record); unknown != "spec._1st" {
			t.Errorf("the schema lacks %q, want _1st alone: %s", unknown, text)
		}
	}
}
