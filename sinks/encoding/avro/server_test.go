package avro_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/schema"
	"kubecdc/source/discovery"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// All objects of a real API server are written and read back, each by its resource's schema. The schemas lack nothing.
func TestObjectsOfARealAPIServer(t *testing.T) {
	config := servers.Kube(t).Config
	api, err := discovery.Connect(config)
	must(t, err)
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	served, err := api.Served(t.Context())
	must(t, err)
	patterns, err := discovery.ParsePatterns([]string{"*", "secrets"})
	must(t, err)
	resources, _ := discovery.Select(patterns, served)
	objects, largest := 0, 0
	for _, r := range resources {
		document, err := api.OpenAPI(t.Context(), r)
		must(t, err)
		object, err := schema.FromOpenAPI(document, r)
		must(t, err)
		s := parse(t, schema.Avro("kubecdc."+r.ID(), object))
		if largest = max(largest, len(s.Text)); len(s.Text) > 256<<10 {
			t.Errorf("%s: the schema has %d bytes; Confluent's registry takes less than 1 MB", r.ID(), len(s.Text))
		}
		all, err := client.Resource(runtimeschema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}).
			List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for i := range all.Items {
			image, err := all.Items[i].MarshalJSON()
			must(t, err)
			objects++
			value := fmt.Appendf(nil, `{"before":%s,"after":%s,"source":null,"op":"u"}`, image, image)
			if unknown := roundTrip(t, s, value); unknown != "" {
				t.Errorf("%s: the schema lacks %s", r.ID(), unknown)
			}
		}
	}
	t.Logf("%d objects, schemas of up to %d bytes", objects, largest)
	if objects < 100 {
		t.Errorf("%d objects", objects)
	}
}

var must = require.NoError
