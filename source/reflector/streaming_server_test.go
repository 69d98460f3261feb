package reflector_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// streamsSeen counts the streaming lists of a stream, and can cut the next one in its middle.
type streamsSeen struct {
	http.RoundTripper
	mu    sync.Mutex
	asked int
	cutAt int64 // bytes of the next streaming list that pass; 0: all
}

func (s *streamsSeen) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if r.URL.Query().Get("sendInitialEvents") == "" || err != nil {
		return resp, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.cutAt > 0 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, s.cutAt), cutShort{}), resp.Body}
		s.cutAt = 0
	}
	return resp, err
}

type cutShort struct{}

func (cutShort) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// ways are two streams of one collection, one with streaming lists and one with pages.
type ways struct {
	gateways [2]*gateway
	logs     [2]*ledger
	seen     *streamsSeen
}

func startBothWays(t *testing.T, k *servers.Kubernetes, stream *change.Stream, options reflector.Options, cutAt int64) *ways {
	w := &ways{}
	for i := range w.logs {
		w.gateways[i], w.logs[i] = newGateway(t, k.Config), newLedger()
		config, o := rest.CopyConfig(w.gateways[i].config()), options
		if i == 0 {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				w.seen = &streamsSeen{RoundTripper: next, cutAt: cutAt}
				return w.seen
			})
			o.Streaming = reflector.NewStreamingLists(true)
		}
		startStream(t, config, stream, o, w.logs[i], &quietObserver{})
		w.logs[i].awaitStarted(t)
	}
	return w
}

// meanwhile lets both streams miss what happens, and get 410 for it.
func (w *ways) meanwhile(t *testing.T, k *servers.Kubernetes, happens func()) {
	t.Helper()
	for _, g := range w.gateways {
		g.hold()
	}
	happens()
	for i, g := range w.gateways {
		g.release(true)
		w.logs[i].await(t, "the relist", func() bool { return len(gaps(w.logs[i].controls)) > 0 })
	}
}

// equal demands that both logs say the same, but for the order of different objects.
func (w *ways) equal(t *testing.T, streamed int) {
	t.Helper()
	var said [2][]string
	var bodies [2]map[string]any
	for i, l := range w.logs {
		changes, controls := l.snapshot()
		bodies[i] = map[string]any{}
		for _, c := range changes {
			line := fmt.Sprintf("%s %s %s@%s inferred %t", c.Key(), c.UID, c.Op, c.ResourceVersion, c.Inferred)
			said[i] = append(said[i], line)
			var body any
			if c.After != nil {
				mustDo(t, json.Unmarshal(c.After, &body))
			}
			bodies[i][line] = body
		}
		for _, c := range controls {
			line := "control " + string(c.Type)
			if c.Objects != nil {
				line += fmt.Sprint(" objects ", *c.Objects)
			}
			if c.Gap != nil {
				line += fmt.Sprint(" gap ", c.Gap.Created, c.Gap.Updated, c.Gap.Deleted, c.Gap.Complete)
			}
			said[i] = append(said[i], line)
		}
		slices.SortStableFunc(said[i], func(a, b string) int { return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0]) })
	}
	if !slices.Equal(said[0], said[1]) {
		t.Errorf("with a streaming list the log says\n%s\nwith pages\n%s", strings.Join(said[0], "\n"), strings.Join(said[1], "\n"))
	}
	if !reflect.DeepEqual(bodies[0], bodies[1]) {
		t.Errorf("with a streaming list the objects are\n%v\nwith pages\n%v", bodies[0], bodies[1])
	}
	if w.seen.asked != streamed {
		t.Errorf("%d streaming lists were asked for, want %d", w.seen.asked, streamed)
	}
}

// A real server's streaming lists have the effect of its pages, in the first list, complete or cut in its middle. So has the list after
// a 410, with objects that were changed, deleted, made and made again, and the watch after each.
func TestStreamingListsHaveTheEffectOfPages(t *testing.T) {
	t.Parallel()
	k := servers.Kube(t)
	for name, cutAt := range map[string]int64{"whole": 0, "cut": 9000} {
		t.Run(name, func(t *testing.T) {
			ns := servers.Namespace(t)
			api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps(ns)
			create := func(name string) {
				t.Helper()
				must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap(name, map[string]string{"app": "a"}), metav1.CreateOptions{}))
			}
			update := func(name string) {
				t.Helper()
				must[*corev1.ConfigMap](t)(api.Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":{"v":"`+ns+name+`"}}`), metav1.PatchOptions{}))
			}
			for i := range 40 {
				create(fmt.Sprintf("object-%02d", i))
			}
			options := testOptions()
			options.Recovery = nil
			w := startBothWays(t, k, change.NewStream(configMaps, ns, "app=a", ""), options, cutAt)
			w.meanwhile(t, k, func() {
				for i := range 10 {
					update(fmt.Sprintf("object-%02d", i))
					mustDo(t, api.Delete(t.Context(), fmt.Sprintf("object-%02d", 10+i), metav1.DeleteOptions{}))
					create(fmt.Sprintf("new-%02d", i))
				}
				for i := range 5 {
					create(fmt.Sprintf("object-%02d", 10+i))
				}
			})
			update("object-39")
			mustDo(t, api.Delete(t.Context(), "object-38", metav1.DeleteOptions{}))
			for _, l := range w.logs {
				l.await(t, "what was watched", func() bool { return len(l.changes) >= 40+10+10+10+5+2 })
			}
			w.equal(t, 2)
		})
	}
}

// The same for custom resources, whose schema changes between the lists.
func TestStreamingListsOfCustomResourcesHaveTheEffectOfPages(t *testing.T) {
	t.Parallel()
	k, ns := servers.Kube(t), servers.Namespace(t)
	group := ns + ".example.com"
	grow, widgets := growing(t, k.Config, group, ns, 1)
	create := func(name string, members ...string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name}}}
		for _, m := range members {
			u.Object[m] = "x"
		}
		must[*unstructured.Unstructured](t)(waitAndCreate(t, widgets, u))
	}
	for i := range 20 {
		create(fmt.Sprintf("w-%02d", i), "m1")
	}
	options := testOptions()
	options.Recovery = nil
	resource := change.Resource{Group: group, Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
	w := startBothWays(t, k, change.NewStream(resource, ns, "", ""), options, 0)
	w.meanwhile(t, k, func() {
		grow(2)
		mustDo(t, widgets.Delete(t.Context(), "w-00", metav1.DeleteOptions{}))
		servers.Await(t, "the new schema", func() (bool, error) {
			_ = widgets.Delete(t.Context(), "probe", metav1.DeleteOptions{})
			create("probe", "m2")
			o, err := widgets.Get(t.Context(), "probe", metav1.GetOptions{})
			return err == nil && o.Object["m2"] == "x", err
		})
		create("w-20", "m1", "m2")
	})
	create("w-21", "m2")
	for _, l := range w.logs {
		l.await(t, "what was watched", func() bool { return l.objects[ns+"/w-21"] != [2]string{} })
	}
	w.equal(t, 2)
}

// A real server streams Events too, which it reads from etcd. Their watch has no bookmarks.
func TestAStreamingListOfEvents(t *testing.T) {
	t.Parallel()
	k, ns := servers.Kube(t), servers.Namespace(t)
	api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().Events(ns)
	for i := range 20 {
		must[*corev1.Event](t)(api.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("e-%02d", i)},
			InvolvedObject: corev1.ObjectReference{Namespace: ns}}, metav1.CreateOptions{}))
	}
	options := testOptions()
	options.Recovery = nil
	w := startBothWays(t, k, change.NewStream(eventsResource, ns, "", ""), options, 0)
	w.meanwhile(t, k, func() {
		mustDo(t, api.Delete(t.Context(), "e-00", metav1.DeleteOptions{}))
	})
	w.equal(t, 2)
}
