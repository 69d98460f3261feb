package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kubecdc/change"
	"kubecdc/schema"
	"kubecdc/source/discovery"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

const (
	podManifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "shop"}}, "spec": {
		"nodeName": "node-1", "containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
		"resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}, "env": [{"name": "A", "value": "b"}],
		"readinessProbe": {"httpGet": {"port": "http", "path": "/"}}, "livenessProbe": {"tcpSocket": {"port": 80}}}],
		"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}], "tolerations": [{"operator": "Exists"}]}}`
	deploymentManifest = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
		"selector": {"matchLabels": {"app": "shop"}}, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
		"template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}`
	autoscalerManifest = `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": {
		"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}`
)

// Every resource of a real API server has a schema in every dialect, and its objects fit the schema.
func TestSchemasOfARealAPIServer(t *testing.T) {
	api, err := discovery.Connect(servers.Kube(t).Config)
	must(t, err)
	created := createObjects(t)
	documents := awaitDocuments(t, api)
	objects := 0
	for _, r := range served(t, api) {
		object, err := schema.FromOpenAPI(documents[r.APIVersion()], r)
		if err != nil {
			t.Error(err)
			continue
		}
		all := choose(t, object, schema.Columns{})
		for _, dialect := range schema.Dialects() {
			write(t, dialect, r, all)
		}
		checkAvro(t, r, all)
		validator := compile(t, described(t, r, all))
		for _, image := range list(t, r) {
			objects++
			validate(t, validator, recordOf(r, change.Update, image, image))
			checkNames(t, r.ID(), object, decode(t, image))
		}
		if r == widgets && !reflect.DeepEqual(object, typeOf(t, widgets)) {
			t.Errorf("the API server that the CRD is installed in gives another type than the CRD's file:\n%s",
				write(t, "flink", r, all))
		}
	}
	t.Logf("%d objects fit", objects)
	if *update {
		record(t, documents, created)
	}
}

// createObjects creates one object of each resource of the golden files, and returns them as the API server has them.
func createObjects(t *testing.T) map[change.Resource][]byte {
	t.Helper()
	client := dynamicClient(t)
	namespace := servers.Namespace(t)
	crds := runtimeschema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Create(t.Context(), manifest(t, "testdata/widgets.yaml"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created := map[change.Resource][]byte{}
	for r, object := range map[change.Resource]*unstructured.Unstructured{
		pods: inline(t, podManifest), deployments: inline(t, deploymentManifest), autoscalers: inline(t, autoscalerManifest),
		widgets: manifest(t, "testdata/widget.yaml"),
	} {
		resource := client.Resource(runtimeschema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural})
		await(t, "create "+object.GetKind(), func() error {
			got, err := resource.Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
			if err == nil {
				created[r], err = json.Marshal(got)
			}
			return err
		})
	}
	return created
}

// awaitDocuments returns the OpenAPI documents of all group versions, once the CRD is in them.
func awaitDocuments(t *testing.T, api *discovery.Server) map[string][]byte {
	t.Helper()
	documents := map[string][]byte{}
	await(t, "the CRD's schema", func() error {
		document, err := api.OpenAPI(t.Context(), widgets)
		if err == nil {
			_, err = schema.FromOpenAPI(document, widgets)
		}
		return err
	})
	for _, r := range served(t, api) {
		if documents[r.APIVersion()] == nil {
			document, err := api.OpenAPI(t.Context(), r)
			must(t, err)
			documents[r.APIVersion()] = document
		}
	}
	return documents
}

func served(t *testing.T, api *discovery.Server) []change.Resource {
	t.Helper()
	s, err := api.Served(t.Context())
	must(t, err)
	patterns, err := discovery.ParsePatterns([]string{"*", "secrets"})
	must(t, err)
	selected, _ := discovery.Select(patterns, s)
	return selected
}

func list(t *testing.T, r change.Resource) (images [][]byte) {
	t.Helper()
	gvr := runtimeschema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
	all, err := dynamicClient(t).Resource(gvr).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, object := range all.Items {
		image, err := json.Marshal(&object)
		must(t, err)
		images = append(images, image)
	}
	return images
}

func dynamicClient(t *testing.T) *dynamic.DynamicClient {
	t.Helper()
	client, err := dynamic.NewForConfig(servers.Kube(t).Config)
	must(t, err)
	return client
}

func manifest(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal(readFile(t, file), &object.Object))
	return object
}

func inline(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, object.UnmarshalJSON([]byte(text)))
	return object
}

// await tries until there is no error.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	servers.Await(t, what, func() (bool, error) { return try() == nil, nil })
}

// checkNames checks that the type names every member of a real object, unless it is open there.
func checkNames(t *testing.T, path string, typ *schema.Type, value any) {
	t.Helper()
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if typ.Kind == schema.Array {
				checkNames(t, path, typ.Elem, element)
			}
		}
	case map[string]any:
		types := map[string]*schema.Type{}
		for _, f := range typ.Fields {
			types[f.Name] = f.Type
		}
		for name, member := range value {
			switch {
			case typ.Kind == schema.Map:
				checkNames(t, path, typ.Elem, member)
			case types[name] != nil:
				checkNames(t, path+"."+name, types[name], member)
			case typ.Kind == schema.Record && !typ.Open:
				t.Errorf("%s has the member %s, which the type does not name", path, name)
			}
		}
	}
}

// record writes what the unit tests read. These are the parts of the documents that describe the resource, and a create, an
// update and a delete of each object.
func record(t *testing.T, documents map[string][]byte, created map[change.Resource][]byte) {
	t.Helper()
	var lines []byte
	for _, r := range []change.Resource{pods, deployments, autoscalers, widgets} {
		image := created[r]
		for _, value := range [][]byte{recordOf(r, change.Create, nil, image), recordOf(r, change.Update, image, image), recordOf(r, change.Delete, image, nil)} {
			lines = append(append(lines, value...), '\n')
		}
		if r != widgets {
			must(t, os.WriteFile(openAPIFile(r), excerpt(t, documents[r.APIVersion()], r.Kind), 0o644))
		}
	}
	must(t, os.WriteFile(recordsFile, lines, 0o644))
}

// excerpt returns the schemas that the kind's schema refers to, without descriptions.
func excerpt(t *testing.T, document []byte, kind string) []byte {
	t.Helper()
	all := decode(t, document).(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	schemas := map[string]any{}
	var keep func(value any)
	keep = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, v := range value {
				keep(v)
			}
		case map[string]any:
			if _, ok := value["description"].(string); ok {
				delete(value, "description")
			}
			for _, v := range value {
				keep(v)
			}
			ref, _ := value["$ref"].(string)
			if name := strings.TrimPrefix(ref, "#/components/schemas/"); ref != "" && schemas[name] == nil {
				schemas[name] = all[name]
				keep(all[name])
			}
		}
	}
	for name, s := range all {
		if strings.HasSuffix(name, "."+kind) && s.(map[string]any)["x-kubernetes-group-version-kind"] != nil {
			schemas[name] = s
			keep(s)
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		text, err := json.Marshal(schemas[name])
		must(t, err)
		lines = append(lines, fmt.Sprintf("%q: %s", name, text))
	}
	return []byte(`{"components": {"schemas": {` + "\n" + strings.Join(lines, ",\n") + "\n}}}\n")
}

// recordOf returns the value of a record as the exporter writes it.
func recordOf(r change.Resource, op change.Op, before, after []byte) []byte {
	e := change.Envelope{Cluster: "prod-eu1", Prefix: "kubecdc", Version: "0.1.0"}
	return e.AppendValue(nil, changeOf(r, op, before, after))
}

func changeOf(r change.Resource, op change.Op, before, after []byte) *change.Change {
	var o struct{ Metadata metav1.ObjectMeta }
	image := after
	if image == nil {
		image = before
	}
	if err := json.Unmarshal(image, &o); err != nil {
		panic(fmt.Sprintf("an object that is no JSON: %v", err))
	}
	return &change.Change{Stream: change.NewStream(r, "", "", ""), Op: op, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
		UID: string(o.Metadata.UID), ResourceVersion: change.ResourceVersion(o.Metadata.ResourceVersion), Time: time.UnixMilli(1_700_000_000_000),
		Before: before, After: after}
}

var must = require.NoError
