package reflector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// aggregate makes the real API server delegate the group of gadgets to p, by an APIService.
func aggregate(t *testing.T, k *servers.Kubernetes, p *pastServer) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gadgets") {
			resp, err := p.RoundTrip(r)
			mustDo(t, err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(resp.StatusCode)
			for part := make([]byte, 32<<10); err == nil; {
				w.(http.Flusher).Flush()
				var n int
				n, err = resp.Body.Read(part)
				_, _ = w.Write(part[:n])
			}
			return
		}
		if r.URL.Path != "/apis/other.example.com/v1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"other.example.com/v1","resources":[
			{"name":"gadgets","namespaced":true,"kind":"Gadget","verbs":["list","watch"]}]}`)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	address := must[*url.URL](t)(url.Parse(server.URL))
	port := must[int](t)(strconv.Atoi(address.Port()))
	must[*corev1.Service](t)(kubernetes.NewForConfigOrDie(k.Config).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{}))
	client := dynamic.NewForConfigOrDie(k.Config)
	must[*unstructured.Unstructured](t)(client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}).
		Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": "v1.other.example.com"},
			"spec": map[string]any{"group": "other.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
				"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "gadgets", "port": int64(port)}}}}, metav1.CreateOptions{}))
	servers.Await(t, "the aggregated server", func() (bool, error) {
		_, err := client.Resource(schema.GroupVersionResource{Group: "other.example.com", Version: "v1", Resource: "gadgets"}).List(context.Background(), metav1.ListOptions{})
		return err == nil, nil
	})
}

// A resource of an aggregated server with its own store is behind a real API server. There is a gap in which an object came and
// went while the server gives other counts. There are deletions at the versions that the objects had. There are versions that are
// no numbers, which stop this stream and no other.
func TestAggregatedResourcesBehindARealAPIServer(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	p := &pastServer{now: 140, lie: "counts what is there now", writes: []write{{90, "a a 90", false}, {95, "b b 95", false},
		{110, "x x 110", false}, {115, "a a 115", false}, {120, "x x 110", true}}}
	aggregate(t, k, p)
	stream := change.NewStream(gadgets, "", "", "")
	options := testOptions()
	l := resumed("100", "a a 90", "b b 95")
	_, stop := startStream(t, k.Config, stream, options, l, &quietObserver{})
	l.awaitPosition(t, "140")
	_ = stop()
	expect(t, l, "c x@110 u a@115 d x@120 at 140")
	if gap := onlyGap(t, l); !gap.Complete {
		t.Errorf("gap record %+v", gap)
	}

	p.mu.Lock()
	p.tells = deleted("a a 115") + deleted("a a 115") + added("a z 150") + deleted("a z 150") + modified("a a 115")
	p.mu.Unlock()
	_, stop = startStream(t, k.Config, stream, options, l, &quietObserver{})
	l.awaitPosition(t, "150")
	l.await(t, "the deletion", func() bool { return len(l.objects) == 1 })
	_ = stop()
	expect(t, l, "c x@110 u a@115 d x@120 d a@115? c a@150 d a@150? at 150")

	p.mu.Lock()
	p.lie, p.watched = "composite versions", false
	p.mu.Unlock()
	o, other := &quietObserver{}, newLedger()
	startStream(t, k.Config, stream, options, l, o)
	start(t, k.Config, options, other)
	o.awaitError(t, func(err error) bool {
		return strings.Contains(err.Error(), `"140/1"`) && strings.Contains(err.Error(), "can't be exported")
	})
	other.awaitSame(t, k.Config)
	if !o.was(change.StateUnsupported) || len(l.raws) > 0 || len(l.objects) != 1 {
		t.Errorf("states %v, %d dead letters, objects %v; want the state unsupported, none, and b", o.states, len(l.raws), l.objects)
	}
}
