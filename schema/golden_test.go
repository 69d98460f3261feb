package schema_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/schema"
)

// readme are the columns of the README's example.
var readme = schema.Columns{Only: []string{"metadata.uid", "metadata.labels", "spec.nodeName", "status.phase"}}

func TestDialects(t *testing.T) {
	for _, c := range []struct {
		resource change.Resource
		columns  schema.Columns
	}{
		{pods, readme},
		{deployments, schema.Columns{Depth: 4}},
		{autoscalers, schema.Columns{}},
		{widgets, schema.Columns{}},
	} {
		object := choose(t, typeOf(t, c.resource), c.columns)
		for _, dialect := range schema.Dialects() {
			got := write(t, dialect, c.resource, object)
			golden := filepath.Join("testdata", "golden", c.resource.ID()+"."+dialect)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || got != string(want) {
				t.Errorf("%s as %s differs from %s (%v); to take it over: go test ./schema -short -args -update", c.resource.ID(), dialect, golden, err)
			}
		}
	}
}

// Of the other encodings a program reads the records, or is refused by name. The Postgres sink has none.
func TestEncodings(t *testing.T) {
	object := choose(t, typeOf(t, pods), readme)
	for _, encoding := range []string{"debezium-schema", "cloudevents", "object", "avro"} {
		for _, dialect := range schema.Dialects() {
			text, err := schema.Write(dialect, schema.Table{Resource: pods, Object: object, Prefix: "kubecdc", Encoding: encoding})
			reads := dialect == "postgres" || dialect == encoding || dialect == "connect" && encoding == "debezium-schema"
			if reads != (err == nil) || err != nil && !strings.Contains(err.Error(), encoding) {
				t.Errorf("%s of %s: %v", dialect, encoding, err)
			}
			if encoding == "debezium-schema" && dialect == "connect" && (strings.Contains(text, "schema.content") || !strings.Contains(text, "topics=kubecdc.pods\n")) {
				t.Errorf("%s", text)
			}
		}
	}
}

// The pages show what the command prints.
func TestPages(t *testing.T) {
	object := choose(t, typeOf(t, pods), readme)
	for page, dialect := range map[string]string{"../README.md": "flink", "../docs/recipes.md": "flink-upsert"} {
		if !strings.Contains(string(readFile(t, page)), write(t, dialect, pods, object)) {
			t.Errorf("%s lacks the output of exporter schema pods --as %s --columns %s", page, dialect, strings.Join(readme.Only, ","))
		}
	}
}
