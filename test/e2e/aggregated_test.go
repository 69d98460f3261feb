package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/test/servers"
)

var (
	gadgets     = Kind{GVR: schema.GroupVersionResource{Group: "other.example.com", Version: "v1", Resource: "gadgets"}}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// The APIService of an aggregated API server is deleted while no exporter runs. Its objects still exist there, so the log has no
// deletion. A selected group whose API server is away from the first start on is reported as missing, and everything else is
// exported.
func TestSlowAnAPIServiceThatIsDeletedUnseenDeletesNothing(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	client := dynamic.NewForConfigOrDie(w.Kube.Config)
	aggregate(t, client)
	register(t, client, "away.example.com", 443)
	env := w.With("KUBECDC_RESOURCES", ConfigMaps.ID()+","+gadgets.ID()+",things.away.example.com")
	logged := func() int { return len(w.Read(t).ByKey(w.Prefix, gadgets)) }
	first := StartExporter(t, "the first exporter", env)
	Await(t, "the gadgets", func() (bool, error) { return logged() == 2, nil })
	first.AwaitReady(t)
	first.awaitWrong(t, "selection: ", "things.away.example.com")
	if code, out := command(t, env, "status"); code != 1 || !strings.Contains(out, "things.away.example.com") {
		t.Errorf("status ends with %d:\n%s", code, out)
	}
	first.stop(t)
	must(t, client.Resource(apiServices).Delete(context.Background(), "v1.other.example.com", metav1.DeleteOptions{}))
	e := StartExporter(t, "the next exporter", env)
	e.awaitWrong(t, "stream "+gadgets.ID()+": ", "aggregated API server")
	wantNoEnd(t, w, gadgets)
	for key, records := range w.Read(t).ByKey(w.Prefix, gadgets) {
		if last := records[len(records)-1]; last.Op != "r" {
			t.Errorf("%s ends with %q", key, last.Op)
		}
	}
}

// aggregate lets the API server delegate the group of gadgets to a server of the test, which has two gadgets that never change.
func aggregate(t *testing.T, client dynamic.Interface) {
	t.Helper()
	const group = `"apiVersion":"v1","groupVersion":"other.example.com/v1"`
	const items = `{"metadata":{"namespace":"default","name":"a","uid":"ua","resourceVersion":"7"}},
		{"metadata":{"namespace":"default","name":"b","uid":"ub","resourceVersion":"8"}}`
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/other.example.com/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList",`+group+`,"resources":[{"name":"gadgets","namespaced":true,"kind":"Gadget","verbs":["list","watch"]}]}`)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/apis/other.example.com/v1/gadgets":
			fmt.Fprint(w, `{"kind":"GadgetList","apiVersion":"other.example.com/v1","metadata":{"resourceVersion":"9"},"items":[`+items+`]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	address, err := url.Parse(server.URL)
	must(t, err)
	port, err := strconv.Atoi(address.Port())
	must(t, err)
	register(t, client, "other.example.com", port)
	Await(t, "the aggregated server", func() (bool, error) {
		_, err := client.Resource(gadgets.GVR).List(context.Background(), metav1.ListOptions{})
		return err == nil, nil
	})
}

// register lets a server on this machine serve the version v1 of a group.
func register(t *testing.T, client dynamic.Interface, group string, port int) {
	t.Helper()
	create := func(r schema.GroupVersionResource, namespace, apiVersion, kind, name string, spec map[string]any) {
		_, err := client.Resource(r).Namespace(namespace).Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{})
		must(t, err)
	}
	service, _, _ := strings.Cut(group, ".")
	create(schema.GroupVersionResource{Version: "v1", Resource: "services"}, "default", "v1", "Service", service,
		map[string]any{"type": "ExternalName", "externalName": "localhost"})
	create(apiServices, "", "apiregistration.k8s.io/v1", "APIService", "v1."+group, map[string]any{"group": group,
		"version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
		"service": map[string]any{"namespace": "default", "name": service, "port": int64(port)}})
}
