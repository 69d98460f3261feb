package avro_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	library "github.com/twmb/avro"

	"kubecdc/change"
	"kubecdc/schema"
	"kubecdc/sinks/encoding/avro"
)

const testdata = "../../../schema/testdata"

var (
	pods        = change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	deployments = change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
	autoscalers = change.Resource{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler"}
	widgets     = change.Resource{Group: "shop.example-corp.com", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
	resources   = []change.Resource{pods, deployments, autoscalers, widgets}
)

// What is written reads back with the same content, and the library reads it, too. The values are real records, and a thousand
// variants for each resource. In these, random members have another type, are null, or are unknown to the schema.
func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i, record := range records(t) {
		s := parse(t, textOf(t, resources[i/3]))
		if unknown := roundTrip(t, s, record); unknown != "" {
			t.Errorf("%s: the schema lacks %s", resources[i/3].ID(), unknown)
		}
		for range 60 {
			var value any
			decode(t, record, &value)
			mutate(random, value, 1+random.IntN(20))
			mutated, err := json.Marshal(value)
			must(t, err)
			roundTrip(t, s, mutated)
		}
	}
}

// roundTrip returns the member that the schema lacks.
func roundTrip(t *testing.T, s *avro.Schema, value []byte) (unknown string) {
	t.Helper()
	encoded, unknown := s.Encode([]byte("before"), value)
	encoded, found := bytes.CutPrefix(encoded, []byte("before"))
	read, err := s.Decode(nil, encoded)
	if err != nil || !found {
		t.Fatalf("decode %s: %v", value, err)
	}
	var want, got any
	decode(t, value, &want)
	decode(t, read, &got)
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("wrote %s\nread  %s", value, read)
	}
	var decoded any
	if rest, err := libraryOf(s).Decode(encoded, &decoded); err != nil || len(rest) > 0 {
		t.Fatalf("the library reads %s: %v, %d bytes left", value, err, len(rest))
	}
	return unknown
}

// libraryOf returns the library's schema. Parsing takes it 10 ms.
func libraryOf(s *avro.Schema) *library.Schema {
	if parsed[s.Text] == nil {
		parsed[s.Text] = library.MustParse(s.Text)
	}
	return parsed[s.Text]
}

var parsed = map[string]*library.Schema{}

// mutate changes some members below a record's value, but no members of the envelope.
func mutate(random *rand.Rand, value any, times int) {
	for range times {
		members := value.(map[string]any)
		for _, image := range []string{"after", "before", "source"} {
			if m, ok := members[image].(map[string]any); ok && random.IntN(3) > 0 {
				members = m
				break
			}
		}
		if _, root := members["op"]; root {
			continue
		}
		for descend(random, &members) {
		}
		name := fmt.Sprintf("new\n\"%d", random.IntN(9))
		for member := range members {
			if random.IntN(len(members)) == 0 {
				name = member
			}
		}
		members[name] = json.RawMessage(values[random.IntN(len(values))])
	}
}

// descend goes to a member that is an object or an array's element, with some probability.
func descend(random *rand.Rand, members *map[string]any) bool {
	for _, m := range *members {
		if list, ok := m.([]any); ok && len(list) > 0 {
			m = list[random.IntN(len(list))]
		}
		if m, ok := m.(map[string]any); ok && random.IntN(3) > 0 {
			*members = m
			return true
		}
	}
	return false
}

var values = []string{`null`, `""`, `"80"`, `"-1"`, `"-0"`, `"00"`, `"+1"`, `"\u00fc<\u003c&\"\\\n\u2028\/"`, `true`, `false`, `0`, `-5`, `1e300`, `0.1`, `-0`,
	`1.0`, `1E2`, `1e400`, `[-1e400]`,
	`9223372036854775807`, `9223372036854775808`, `9007199254740993`, `[]`, `[1,"a",null]`, `[[]]`, `[{"name":1,"x":null}]`,
	`{}`, `{"a":null,"b":"1"}`, `{"name":"n","spec":{"a":[null]}}`, `{"":""}`, `{"_extra":"x"}`, `"{}"`, `"null"`, `{"a\n":{"b\"":1}}`}

func records(t testing.TB) [][]byte {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(read(t, "records.jsonl")), []byte("\n"))
	if len(lines) != 3*len(resources) {
		t.Fatalf("%d records", len(lines))
	}
	return lines
}

func typeOf(t testing.TB, r change.Resource) *schema.Type {
	t.Helper()
	var object *schema.Type
	var err error
	if r == widgets {
		var crds schema.CRDs
		if crds, err = schema.ParseCRDs(read(t, "widgets.yaml")); err == nil {
			_, object, err = crds.Find("widgets")
		}
	} else {
		object, err = schema.FromOpenAPI(read(t, r.ID()+".openapi.json"), r)
	}
	must(t, err)
	return object
}

func textOf(t testing.TB, r change.Resource) string { return write(t, r, typeOf(t, r)) }

func write(t testing.TB, r change.Resource, object *schema.Type) string {
	t.Helper()
	text, err := schema.Write("avro", schema.Table{Resource: r, Object: object, Prefix: "kubecdc"})
	must(t, err)
	return text
}

func parse(t testing.TB, text string) *avro.Schema {
	t.Helper()
	s, err := avro.Parse(text)
	must(t, err)
	return s
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(testdata, name))
	must(t, err)
	return content
}

// decode keeps the text of numbers.
func decode(t testing.TB, text []byte, into *any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// Broken bytes lead to an error, never to a panic or an endless loop.
func TestDecodeOfBrokenBytes(t *testing.T) {
	s := parse(t, textOf(t, pods))
	encoded, _ := s.Encode(nil, records(t)[1])
	for i := 0; i < len(encoded); i += 7 {
		if _, err := s.Decode(nil, encoded[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", i, len(encoded))
		}
		for _, b := range []byte{0, 1, 2, 0x7f, 0xff} {
			broken := bytes.Clone(encoded)
			broken[i] = b
			if read, err := s.Decode(nil, broken); err == nil && !json.Valid(read) {
				t.Fatalf("with byte %d as %#x: not JSON: %s", i, b, read)
			}
		}
	}
}

// The stub of an object that was too large is still a stub when it is read back.
func TestStub(t *testing.T) {
	stub, err := change.Stub([]byte(`{"metadata":{"uid":"u","resourceVersion":"1","namespace":"n","name":"a"},"kind":"Pod","apiVersion":"v1"}`))
	must(t, err)
	s := parse(t, textOf(t, pods))
	encoded, _ := s.Encode(nil, fmt.Appendf(nil, `{"before":null,"after":%s,"source":null,"op":"c"}`, stub))
	read, err := s.Decode(nil, encoded)
	must(t, err)
	if d, err := change.Decode(read); err != nil || !change.IsStub(d.After) {
		t.Errorf("the stub is read back as %s, %v", d.After, err)
	}
}

// Other programs' schemas are refused, with the place.
func TestParseRefusesOtherSchemas(t *testing.T) {
	for text, want := range map[string]string{
		`"string"`: "no record",
		`{"type":"record","name":"A","fields":[{"name":"a","type":["null","int"]}]}`:               "a is of type int",
		`{"type":"record","name":"A","fields":[{"name":"b","type":["null","string","long"]}]}`:     "b is a union",
		`{"type":"record","name":"A","fields":[{"name":"c","type":{"type":"array","items":"A"}}]}`: "c is of type A",
		`{"type":"record","name":"A","fields":[{"name":"e","type":"string"}]}`:                     "e can't be null",
		`{"type":"record","name":"A","fields":[{"name":"d","type":["null","string"]}]}`:            "the record is not its _extra",
	} {
		if _, err := avro.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for i, r := range resources {
		b.Run(r.Kind, func(b *testing.B) {
			s, record := parse(b, textOf(b, r)), records(b)[3*i+1]
			b.ReportAllocs()
			b.SetBytes(int64(len(record)))
			var dst []byte
			for b.Loop() {
				dst, _ = s.Encode(dst[:0], record)
			}
			b.ReportMetric(float64(len(dst)), "bytes")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	s := parse(b, textOf(b, pods))
	encoded, _ := s.Encode(nil, records(b)[1])
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst, _ = s.Decode(dst[:0], encoded)
	}
}
