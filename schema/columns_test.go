package schema_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/schema"
)

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		columns schema.Columns
		want    string // the Flink statement's, on one line
	}{
		{schema.Columns{Only: []string{"spec.dotted.name", "status.conditions.type"}},
			"`spec` ROW<`dotted.name` STRING>, `status` ROW<`conditions` ARRAY<ROW<`type` STRING>>>"},
		{schema.Columns{Only: []string{"spec.order", "spec.order.table"}}, "`spec` ROW<`order` ROW<`group` BIGINT, `table` STRING>>"},
		{schema.Columns{Only: []string{"spec.config", "spec.pools.zones"}, JSON: []string{"spec.config", "spec.pools.zones"}},
			"`spec` ROW<`config` STRING, `pools` MAP<STRING, ROW<`zones` STRING>>>"},
		{schema.Columns{Only: []string{"spec.order", "status"}, Without: []string{"status.conditions.type", "status.phase", "spec.order.table"}},
			"`spec` ROW<`order` ROW<`group` BIGINT>>, `status` ROW<`conditions` ARRAY<ROW<`observedGeneration` BIGINT, `status` STRING>>>"},
		{schema.Columns{Without: []string{"apiVersion", "kind", "metadata", "name", "spec", "status.conditions"}}, "`status` ROW<`phase` STRING>"},
		{schema.Columns{Without: []string{"apiVersion", "kind", "metadata", "name", "spec", "status.phase", "status.conditions.type",
			"status.conditions.status"}}, "`status` ROW<`conditions` ARRAY<ROW<`observedGeneration` BIGINT>>>"},
		{schema.Columns{Only: []string{"metadata.managedFields.time"}}, "`metadata` ROW<`managedFields` ARRAY<ROW<`time` STRING>>>"},
		{schema.Columns{Only: []string{"spec.count", "spec.dotted.name", "spec.pools"}, Redacted: []string{"spec.count", `spec.dotted\.name`, "spec.pools.*.replicas"}},
			"`spec` ROW<`count` STRING, `dotted.name` STRING, `pools` MAP<STRING, ROW<`replicas` STRING, `zones` ARRAY<STRING>>>>"},
		{schema.Columns{Only: []string{"spec.matrix", "spec.order"}, Redacted: []string{"spec.*"}}, "`spec` ROW<`matrix` STRING, `order` STRING>"},
	} {
		_, rest, _ := strings.Cut(write(t, "flink", widgets, choose(t, typeOf(t, widgets), c.columns)), "`name` STRING,\n")
		got, _, _ := strings.Cut(rest, ",\n  PRIMARY KEY")
		got = strings.NewReplacer("< ", "<", " >", ">").Replace(strings.Join(strings.Fields(got), " "))
		if got != c.want {
			t.Errorf("%+v:\n%s\nwant:\n%s", c.columns, got, c.want)
		}
	}
}

// CRDs may have names that other programs can't handle. They have characters of several bytes where a name is cut, line breaks or
// backslashes, or names that differ only by case.
func TestOddNames(t *testing.T) {
	odd := func(names ...string) *schema.Type {
		r := &schema.Type{Kind: schema.Record}
		for _, name := range names {
			r.Fields = append(r.Fields, schema.Field{Name: name, Type: &schema.Type{Kind: schema.String}})
		}
		return r
	}
	for cut := range 4 {
		name := strings.Repeat("x", cut) + strings.Repeat("\U0001f600", 20)
		for _, dialect := range schema.Dialects() {
			if text := write(t, dialect, widgets, odd(name, name+"1")); !utf8.ValidString(text) {
				t.Errorf("%s cuts a character: %q", dialect, text)
			}
		}
	}
	for dialect, hint := range map[string]string{"spark": "spark.sql.caseSensitive", "connect": "quote.identifiers=true"} {
		for object, want := range map[*schema.Type]bool{odd("ab", "aB"): true, odd("ab", "b"): false} {
			if text := write(t, dialect, widgets, object); strings.Contains(text, hint) != want {
				t.Errorf("%s: a hint is %t:\n%s", dialect, !want, text)
			}
		}
	}
	for _, dialect := range []string{"flink", "flink-upsert"} {
		_, err := schema.Write(dialect, schema.Table{Resource: widgets, Object: odd("a\nb")})
		var name fault.Usage
		if !errors.As(err, &name) || !strings.Contains(err.Error(), "--without") {
			t.Errorf("%s: %v", dialect, err)
		}
	}
}

func TestAWrongNameIsExplained(t *testing.T) {
	crds, err := schema.ParseCRDs(readFile(t, "testdata/widgets.yaml"))
	must(t, err)
	_, _, unknown := crds.Find("widgetz")
	_, member := typeOf(t, widgets).Choose(schema.Columns{Only: []string{"status.fase"}})
	_, none := typeOf(t, widgets).Choose(schema.Columns{Only: []string{"status"}, Without: []string{"status"}})
	_, scalar := typeOf(t, widgets).Choose(schema.Columns{JSON: []string{"spec.count.x"}})
	_, dialect := schema.Write("flnk", schema.Table{Resource: pods, Object: typeOf(t, pods)})
	for want, err := range map[string]error{
		`no resource "widgetz"; did you mean widgets? it has widgets.shop.example-corp.com`: unknown,
		`no column "status.fase": status has no member "fase"; did you mean phase?`:         member,
		`no column is left`: none,
		`no column "spec.count.x": the schema names no member of spec.count`:                           scalar,
		`--as "flnk": no such program; did you mean flink? use one of flink, flink-upsert, postgres, `: dialect,
	} {
		var name fault.Usage
		if !errors.As(err, &name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A CRD without a schema, or one that retains unknown members, has spec and status as JSON.
func TestACRDWithoutASchema(t *testing.T) {
	const crd = `{"kind": "List", "items": [{"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "scope": "Cluster",
		"names": {"plural": "things", "kind": "Thing"}, "versions": [
		{"name": "v1beta1", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "string"}}}}},
		{"name": "v1", "served": true}, {"name": "v2", "served": false}]}}]}`
	crds, err := schema.ParseCRDs([]byte(crd))
	must(t, err)
	resource, object, err := crds.Find("things.example.com")
	if err != nil || resource.Version != "v1" {
		t.Fatal(resource, err) // an API server prefers v1 to v1beta1
	}
	text := write(t, "flink", resource, choose(t, object, schema.Columns{}))
	if !strings.Contains(text, "`spec` STRING,\n  `status` STRING") || !strings.Contains(text, "in: the object itself") {
		t.Error(text)
	}
	for _, wrong := range []string{"", "kind: Pod", "a: [", `{"kind": "CustomResourceDefinition"}`} {
		if _, err := schema.ParseCRDs([]byte(wrong)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// A schema that refers to itself, directly or through another one, is JSON where it is first used.
func TestRecursiveSchemas(t *testing.T) {
	const document = `{"components": {"schemas": {
		"Tree": {"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Tree"}], "type": "object", "properties": {
			"spec": {"default": {}, "allOf": [{"$ref": "#/components/schemas/Spec"}]}}},
		"Spec": {"type": "object", "properties": {"root": {"$ref": "#/components/schemas/Node"}, "size": {"$ref": "#/components/schemas/Size"},
			"lost": {"$ref": "#/components/schemas/None"}}},
		"Node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Branch"}}}},
		"Branch": {"type": "object", "additionalProperties": {"allOf": [{"$ref": "#/components/schemas/Node"}]}},
		"Size": {"oneOf": [{"type": "string"}, {"type": "number"}]}}}}`
	trees := change.Resource{Group: "example.com", Version: "v1", Plural: "trees", Kind: "Tree"}
	object, err := schema.FromOpenAPI([]byte(document), trees)
	must(t, err)
	text := write(t, "flink", trees, choose(t, object, schema.Columns{Only: []string{"spec"}}))
	if want := "`spec` ROW<`lost` STRING, `root` STRING, `size` STRING>"; !strings.Contains(text, want) {
		t.Errorf("lacks %s:\n%s", want, text)
	}
	trees.Kind = "Forest"
	if _, err := schema.FromOpenAPI([]byte(document), trees); err == nil || !strings.Contains(err.Error(), "--crds") {
		t.Error(err)
	}
}
