package schema_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"kubecdc/change"
	"kubecdc/schema"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var update = flag.Bool("update", false, "write the golden files, and with real servers what they are made from, instead of comparing")

var (
	pods        = change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	deployments = change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
	autoscalers = change.Resource{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler",
		Namespaced: true}
	widgets = change.Resource{Group: "shop.example-corp.com", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
)

// typeOf returns the type of a resource's objects, from the API server's document in testdata or from the file of a CRD.
func typeOf(t *testing.T, r change.Resource) *schema.Type {
	t.Helper()
	if r == widgets {
		crds, err := schema.ParseCRDs(readFile(t, "testdata/widgets.yaml"))
		must(t, err)
		_, object, err := crds.Find("widgets")
		must(t, err)
		return object
	}
	object, err := schema.FromOpenAPI(readFile(t, openAPIFile(r)), r)
	must(t, err)
	return object
}

// openAPIFile has the part of the API server's OpenAPI document that describes the resource, without descriptions.
func openAPIFile(r change.Resource) string { return filepath.Join("testdata", r.ID()+".openapi.json") }

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	must(t, err)
	return content
}

// choose returns the type with these columns.
func choose(t *testing.T, object *schema.Type, c schema.Columns) *schema.Type {
	t.Helper()
	chosen, err := object.Choose(c)
	must(t, err)
	return chosen
}

func write(t *testing.T, dialect string, r change.Resource, object *schema.Type) string {
	t.Helper()
	return writeIn(t, "", dialect, r, object)
}

// described is the JSON Schema of a resource's records.
func described(t *testing.T, r change.Resource, object *schema.Type) string {
	t.Helper()
	text, err := schema.JSONSchema(schema.Table{Resource: r, Object: object, Prefix: "kubecdc"})
	must(t, err)
	return text
}

func writeIn(t *testing.T, encoding, dialect string, r change.Resource, object *schema.Type) string {
	t.Helper()
	text, err := schema.Write(dialect, schema.Table{Resource: r, Object: object, Prefix: "kubecdc", Encoding: encoding})
	if err != nil {
		t.Fatalf("%s as %s: %v", r.ID(), dialect, err)
	}
	return text
}
