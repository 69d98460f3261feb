package schema_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/schema"
)

// shown are the columns in the examples of the documentation.
var shown = schema.Columns{Only: []string{"metadata.uid", "metadata.labels", "spec.nodeName", "status.phase"}}

func TestDialects(t *testing.T) {
	for _, c := range []struct {
		resource change.Resource
		columns  schema.Columns
	}{
		{pods, shown},
		{deployments, schema.Columns{Without: []string{"spec.template.spec"}}},
		{autoscalers, schema.Columns{}},
		{widgets, schema.Columns{}},
	} {
		object := choose(t, typeOf(t, c.resource), c.columns)
		for _, dialect := range schema.Dialects() {
			golden(t, c.resource.ID()+"."+dialect, write(t, dialect, c.resource, object))
		}
		for _, in := range inEncodings {
			if c.resource != pods && c.resource != widgets {
				continue
			}
			golden(t, c.resource.ID()+"."+in.dialect+"."+in.encoding, writeIn(t, in.encoding, in.dialect, c.resource, object))
		}
	}
}

// golden compares a text with the file of that name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("the output differs from %s (%v); to take it over: go test ./schema -short -args -update", file, err)
	}
}

type inEncoding struct{ dialect, encoding string }

// inEncodings are the statements that differ with the encoding.
var inEncodings = []inEncoding{{"flink", "avro"}, {"flink-upsert", "avro"}, {"flink-upsert", "object"}}

// In each other encoding, a program either reads the records or refuses the encoding by name. The Postgres sink has no encodings.
func TestEncodings(t *testing.T) {
	object := choose(t, typeOf(t, pods), shown)
	for _, encoding := range []string{"debezium-schema", "cloudevents", "object", "avro"} {
		for _, dialect := range schema.Dialects() {
			text, err := schema.Write(dialect, schema.Table{Resource: pods, Object: object, Prefix: "kubecdc", Encoding: encoding,
				Registry: "https://schemas:8081"})
			if named := strings.Contains(text, "avro-confluent.url' = 'https://schemas:8081'"); named != (encoding == "avro" && strings.HasPrefix(dialect, "flink")) {
				t.Errorf("%s of %s names the registry: %v\n%s", dialect, encoding, named, text)
			}
			reads := dialect == "postgres" || dialect == encoding || dialect == "connect" && encoding == "debezium-schema" ||
				slices.Contains(inEncodings, inEncoding{dialect, encoding})
			if reads != (err == nil) || err != nil && !strings.Contains(err.Error(), encoding) {
				t.Errorf("%s of %s: %v", dialect, encoding, err)
			}
			if encoding == "debezium-schema" && dialect == "connect" && (strings.Contains(text, "schema.content") || !strings.Contains(text, "topics=kubecdc.pods\n")) {
				t.Errorf("%s", text)
			}
		}
	}
}
