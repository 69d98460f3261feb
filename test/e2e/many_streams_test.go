package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A cluster with a few large operators has a thousand custom resources, of which hardly one has objects. After an API server's
// restart their streams have a gap each. All gaps are closed, complete, and each costs a few requests, of a ServiceAccount whose
// API server is 200 ms away. KUBECDC_TEST_STREAMS says how many streams, and KUBECDC_TEST_LATENCY how far the API server is.
func TestSlowTheGapsOfManyStreamsAreClosed(t *testing.T) {
	servers.Slow(t)
	w := NewFileWorld(t)
	custom := 300
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_TEST_STREAMS")); err == nil {
		custom = n
	}
	makeCRDs(t, w, custom)
	kinds := []Kind{ConfigMaps}
	writer := NewWriter(t, w.Kube.Config, 1, kinds)
	road := newRoad(t, w)
	env := w.With("KUBECONFIG", road.kubeconfig, "KUBECDC_RESOURCES", ConfigMaps.ID()+",*.many.example.com", "KUBECDC_WATERMARK_INTERVAL", "1m")
	e := StartExporter(t, "the first lists", env)
	w.awaitSnapshots(t, custom+1)
	before := e.cpu(t)
	e.Signal(syscall.SIGSTOP)
	writer.Run(40)
	must(t, w.Kube.RestartAPIServer(t.Context()))
	started := time.Now()
	other := w.newBystander(t)
	e.Signal(syscall.SIGCONT)
	gaps := w.awaitGaps(t, custom) // ConfigMaps may have none: buffers may have all their changes
	took := time.Since(started)
	other.stop()
	w.AwaitMarks(t, writer.Marks(kinds))
	output, cpu := string(e.log.Bytes()), e.cpu(t)-before
	e.stop(t)
	requests, longest := 0, int64(0)
	for stream, g := range gaps {
		requests, longest = requests+g.Requests, max(longest, g.ElapsedMs)
		if !g.Complete {
			t.Errorf("the gap of %s: %+v", stream, g)
		}
	}
	t.Logf("%d streams: all gaps closed %s after the restart, %s of CPU, %.1f requests a stream, the longest took %d ms, lines of progress: %d",
		custom+1, took.Round(time.Second), cpu.Round(100*time.Millisecond), float64(requests)/float64(custom+1), longest, strings.Count(output, "recovering gaps"))
	t.Logf("%d of all requests got a 429; of %d of another account: %d, and %d had another error", road.refused.Load(), other.asked, other.refused, other.failed)
	if other.refused > 0 {
		t.Error("the API server refuses others")
	}
	if requests > 20*custom {
		t.Errorf("%d requests for %d streams", requests, custom)
	}
	if took > 30*time.Second && !strings.Contains(output, "recovering gaps") {
		t.Error("no line of the log says how far the recoveries are")
	}
}

// bystander is another ServiceAccount that reads an object again and again. It has no rights, which the API server says after it has
// admitted the request.
type bystander struct {
	asked, refused, failed int
	stop                   func()
}

func (w *World) newBystander(t *testing.T) *bystander {
	t.Helper()
	config := rest.CopyConfig(w.Kube.Config)
	config.Impersonate.UserName = "system:serviceaccount:default:bystander"
	transport, err := rest.TransportFor(config)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Kube.API.URL+"/api/v1/namespaces/default", nil)
	must(t, err)
	b, ended := &bystander{}, make(chan struct{})
	b.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		for ticks := time.Tick(50 * time.Millisecond); ctx.Err() == nil; <-ticks {
			answer, err := transport.RoundTrip(request)
			switch b.asked++; {
			case err != nil:
				b.failed++
				continue
			case answer.StatusCode == http.StatusTooManyRequests:
				b.refused++
			}
			_ = answer.Body.Close()
		}
	}()
	return b
}

// makeCRDs makes so many custom resources, and waits until all are served.
func makeCRDs(t *testing.T, w *World, n int) {
	t.Helper()
	crds := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(kindOf("apiextensions.k8s.io", "v1", "customresourcedefinitions").GVR)
	group := errgroup.Group{}
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			name := fmt.Sprintf("things%04d", i)
			_, err := crds.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": name + ".many.example.com"},
				"spec": map[string]any{"group": "many.example.com", "scope": "Namespaced",
					"names": map[string]any{"plural": name, "singular": fmt.Sprintf("thing%04d", i), "kind": fmt.Sprintf("Thing%04d", i)},
					"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
						"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}},
			}}, metav1.CreateOptions{})
			return err
		})
	}
	must(t, group.Wait())
	client := dynamic.NewForConfigOrDie(w.Kube.Config)
	for i := range n {
		servers.Await(t, "the resource to be served", func() (bool, error) {
			gvr := kindOf("many.example.com", "v1", fmt.Sprintf("things%04d", i)).GVR
			_, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil, nil
		})
	}
}

// awaitSnapshots waits until so many streams have ended their first lists.
func (w *World) awaitSnapshots(t *testing.T, streams int) {
	t.Helper()
	w.awaitStreams(t, "the first lists", streams, func(c *change.Control) bool { return c.Type == change.ControlSnapshotEnd })
}

// awaitGaps waits until so many streams have closed a gap, and returns the gaps.
func (w *World) awaitGaps(t *testing.T, streams int) map[change.StreamID]*change.Gap {
	t.Helper()
	gaps := map[change.StreamID]*change.Gap{}
	w.awaitStreams(t, "the gaps to be closed", streams, func(c *change.Control) bool {
		if c.Type == change.ControlGap {
			gaps[c.Stream] = c.Gap
		}
		return c.Type == change.ControlGap
	})
	return gaps
}

func (w *World) awaitStreams(t *testing.T, what string, streams int, counts func(*change.Control) bool) {
	t.Helper()
	servers.Await(t, what, func() (bool, error) {
		found := map[change.StreamID]bool{}
		for _, c := range w.fileControls(t) {
			if counts(&c) {
				found[c.Stream] = true
			}
		}
		return len(found) >= streams, nil
	})
}

// road is a way to the API server on which each request takes a while longer, for a ServiceAccount.
type road struct {
	kubeconfig string
	refused    atomic.Int64 // answers 429
}

func newRoad(t *testing.T, w *World) *road {
	t.Helper()
	latency, err := time.ParseDuration(cmp.Or(os.Getenv("KUBECDC_TEST_LATENCY"), "200ms"))
	must(t, err)
	_, err = kubernetes.NewForConfigOrDie(w.Kube.Config).RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "exporter"}, RoleRef: rbac.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbac.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "exporter"}}}, metav1.CreateOptions{})
	must(t, err)
	config := rest.CopyConfig(w.Kube.Config)
	config.Impersonate.UserName = "system:serviceaccount:default:exporter" // priority and fairness exempts admins
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(w.Kube.API.URL)
	must(t, err)
	r := &road{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.StatusCode == http.StatusTooManyRequests {
			r.refused.Add(1)
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case <-time.After(latency):
			proxy.ServeHTTP(w, request)
		case <-request.Context().Done():
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	must(t, os.WriteFile(r.kubeconfig, []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u"}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, server.URL)), 0o600))
	return r
}

// cpu returns the processor time that the process has taken.
func (e *Exporter) cpu(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(e.Metric(t, "process_cpu_seconds_total", "") * float64(time.Second))
}
