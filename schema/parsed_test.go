package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/avro"

	"kubecdc/change"
	"kubecdc/schema"
)

// recordsFile has records of real objects, one a line.
const recordsFile = "testdata/records.jsonl"

// The types fit real records, and only those.
func TestTypesFitRealRecords(t *testing.T) {
	lines := bytes.Split(bytes.TrimSpace(readFile(t, recordsFile)), []byte("\n"))
	resources := []change.Resource{pods, deployments, autoscalers, widgets}
	if len(lines) != 3*len(resources) {
		t.Fatalf("%d records", len(lines))
	}
	for i, r := range resources {
		validator := compile(t, described(t, r, choose(t, typeOf(t, r), schema.Columns{})))
		for _, line := range lines[3*i : 3*i+3] {
			validate(t, validator, line)
		}
		for _, wrong := range []string{`"op":"x"`, `"op":1`} {
			broken := strings.Replace(string(lines[3*i]), `"op":"c"`, wrong, 1)
			if validator.Validate(decode(t, []byte(broken))) == nil {
				t.Errorf("%s: a record with %s is accepted", r.ID(), wrong)
			}
		}
		broken := strings.Replace(string(lines[3*i]), `"resourceVersion":"`, `"resourceVersion":1,"was":"`, 1)
		if validator.Validate(decode(t, []byte(broken))) == nil {
			t.Errorf("%s: an object whose resourceVersion is a number is accepted", r.ID())
		}
	}
}

func TestAvroIsValid(t *testing.T) {
	for _, r := range []change.Resource{pods, deployments, autoscalers, widgets} {
		checkAvro(t, r, choose(t, typeOf(t, r), schema.Columns{}))
	}
}

// checkAvro parses the schema, and encodes and decodes a delete with it.
func checkAvro(t *testing.T, r change.Resource, object *schema.Type) {
	t.Helper()
	s, err := avro.Parse(write(t, "avro", r, object))
	if err != nil {
		t.Errorf("%s: %v", r.ID(), err)
		return
	}
	written := map[string]any{"before": map[string]any{"metadata": map[string]any{"name": "a"}}, "op": "d", "ts_ms": int64(1)}
	encoded, err := s.Encode(written)
	if err != nil {
		t.Errorf("%s: %v", r.ID(), err)
		return
	}
	var read any
	if _, err := s.Decode(encoded, &read); err != nil || !strings.Contains(fmt.Sprint(read), "name:a") {
		t.Errorf("%s: read back %v, %v", r.ID(), read, err)
	}
}

// The properties for Connect have JSON schemas whose names Debezium's sinks know.
func TestConnectSchemaIsAnEnvelope(t *testing.T) {
	type field struct{ Field, Type, Name string }
	for _, r := range []change.Resource{pods, deployments, autoscalers, widgets} {
		properties := write(t, "connect", r, choose(t, typeOf(t, r), schema.Columns{}))
		var value struct {
			field
			Fields []field
		}
		for line := range strings.Lines(properties) {
			if text, ok := strings.CutPrefix(line, "value.converter.schema.content="); ok {
				must(t, json.Unmarshal([]byte(strings.ReplaceAll(text, `\\`, `\`)), &value))
			}
		}
		if value.Name != "kubecdc."+r.ID()+".Envelope" || value.Type != "struct" || len(value.Fields) != 5 || value.Fields[1].Field != "after" {
			t.Errorf("%s: %+v", r.ID(), value)
		}
	}
}

func compile(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("record.json", document))
	s, err := c.Compile("record.json")
	must(t, err)
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, value []byte) {
	t.Helper()
	if err := s.Validate(decode(t, value)); err != nil {
		t.Errorf("%v\n%s", err, value)
	}
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	return value
}
