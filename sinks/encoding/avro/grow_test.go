package avro_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	library "github.com/twmb/avro"

	"kubecdc/schema"
	"kubecdc/sinks/encoding/avro"
)

// crd returns the type of a CRD whose spec has these properties.
func crd(t *testing.T, properties string) *schema.Type {
	t.Helper()
	crds, err := schema.ParseCRDs(fmt.Appendf(nil, `{"kind": "CustomResourceDefinition", "spec": {"group": "shop.example-corp.com",
		"scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "schema":
		{"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {%s}}}}}}]}}`, properties))
	must(t, err)
	_, object, err := crds.Find("widgets")
	must(t, err)
	return object
}

const (
	replicasNumber = `"replicas": {"type": "integer"}`
	replicasText   = `"replicas": {"type": "string"}`
	colour         = `"colour": {"type": "string"}`
	parts          = `"parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}`
	partsMore      = `"parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "integer"}, "count": {"type": "integer"}}}}`
	partsText      = `"parts": {"type": "array", "items": {"type": "string"}}`
	partsMap       = `"parts": {"additionalProperties": {"type": "number"}}`
	partsObject    = `"parts": {"type": "object", "properties": {"name": {"type": "string"}}}`
	twins          = `"left": {"type": "object", "properties": {"name": {"type": "string"}}}, "right": {"type": "object", "properties": {"name": {"type": "string"}}}`
	twinsMore      = `"left": {"type": "object", "properties": {"name": {"type": "string"}}}, "right": {"type": "object", "properties": {"name": {"type": "integer"}, "inner": {"type": "object", "properties": {"name": {"type": "string"}}}}}`
	free           = `"replicas": {"x-kubernetes-preserve-unknown-fields": true}`
	either         = `"replicas": {"x-kubernetes-int-or-string": true}`
)

// A schema grows over the versions of a CRD, in any order. Each version's records read back with their content, by the schema
// they were written with and by all later ones. All schemas are compatible in both directions.
func TestGrow(t *testing.T) {
	versions := []string{replicasNumber, replicasNumber + "," + colour, replicasText + "," + parts, either + "," + partsMore, partsText,
		partsMap + "," + free, partsObject + "," + replicasNumber, twins, twinsMore, ""}
	objects := []string{`{"replicas":3}`, `{"replicas":"3","colour":null}`, `{"colour":"red","parts":[{"name":"a"},{"name":1,"count":2}]}`,
		`{"parts":["a"],"replicas":{"a":1}}`, `{"parts":{"a":0.5}}`, `{"parts":{"name":"a"}}`, `{"parts":[]}`, `{"left":{"name":"a"},"right":{"name":1,"inner":{"name":"b"}}}`, `{"other":[1]}`}
	random := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		random.Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
		text := write(t, widgets, crd(t, versions[0]))
		seen := []string{text}
		for _, version := range versions[1:] {
			wanted := write(t, widgets, crd(t, version))
			grown, more := grow(t, text, wanted)
			if more {
				seen = append(seen, grown)
			}
			if text = grown; again(t, text, wanted) {
				t.Fatalf("the schema grows again with what it has:\n%s", wanted)
			}
		}
		for i, text := range seen {
			s := parse(t, text)
			for _, spec := range objects {
				roundTrip(t, s, []byte(`{"before":null,"after":{"spec":`+spec+`},"source":null,"op":"c"}`))
			}
			for _, later := range seen[i+1:] {
				checkBoth(t, text, later)
			}
		}
	}
}

func grow(t *testing.T, known, wanted string) (string, bool) {
	t.Helper()
	text, grown, err := avro.Grow(known, wanted)
	must(t, err)
	return text, grown
}

func again(t *testing.T, known, wanted string) bool {
	t.Helper()
	_, grown := grow(t, known, wanted)
	return grown
}

func checkBoth(t *testing.T, a, b string) {
	t.Helper()
	one, other := library.MustParse(a), library.MustParse(b)
	for _, pair := range [][2]*library.Schema{{one, other}, {other, one}} {
		must(t, library.CheckCompatibility(pair[0], pair[1]))
	}
}

// A member whose type has changed has a field for each type. The value decides which one is used.
func TestTypeChange(t *testing.T) {
	text, _ := grow(t, write(t, widgets, crd(t, replicasNumber)), write(t, widgets, crd(t, replicasText)))
	s := parse(t, text)
	for spec, want := range map[string]map[string]any{
		`{"replicas":3}`:      {"replicas": int64(3)},
		`{"replicas":"many"}`: {"replicas_string": "many"},
		`{"replicas":true}`:   {"_extra": `{"replicas":true}`},
		`{"colour":"red"}`:    {"_extra": `{"colour":"red"}`},
	} {
		encoded, unknown := s.Encode(nil, []byte(`{"before":null,"after":{"spec":`+spec+`}}`))
		var value any
		if _, err := library.MustParse(text).Decode(encoded, &value); err != nil {
			t.Fatal(err)
		}
		got := value.(map[string]any)["after"].(map[string]any)["spec"].(map[string]any)
		for name, member := range got {
			if member == nil {
				delete(got, name)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is written as %v, want %v", spec, got, want)
		}
		if _, extra := want["_extra"]; extra != (unknown != "") {
			t.Errorf("%s: the schema lacks %q", spec, unknown)
		}
	}
}

// A foreign schema can't be extended.
func TestGrowRefusesOtherSchemas(t *testing.T) {
	_, _, err := avro.Grow(`{"type":"record","name":"Order","fields":[{"name":"a","type":["null","long"]}]}`, textOf(t, widgets))
	if err == nil || !strings.Contains(err.Error(), "_extra") {
		t.Error(err)
	}
}
