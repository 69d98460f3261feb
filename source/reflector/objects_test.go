package reflector_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// What happens to objects on a real server.

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		mustDo(t, err)
		return v
	}
}

// awaitLog waits until the log says the changes, as "op name", in this order.
func (l *ledger) awaitLog(t *testing.T, want ...string) {
	t.Helper()
	text := func() string {
		var all []string
		for _, c := range l.changes {
			all = append(all, c.Op.String()+" "+c.Name)
		}
		return strings.Join(all, ", ")
	}
	clock := servers.StartClock()
	l.await(t, "", func() bool { return len(l.changes) >= len(want) || clock.Late() })
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := text(); got != strings.Join(want, ", ") {
		t.Fatalf("the log says %q, want %q", got, strings.Join(want, ", "))
	}
}

func (l *ledger) awaitStarted(t *testing.T) {
	t.Helper()
	l.await(t, "the first list", func() bool { return l.position != "" })
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"k": name}}
}

func TestObjectsEnterAndLeaveALabelSelector(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	g := newGateway(t, k.Config)
	api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps(ns)
	l := newLedger()
	startStream(t, g.config(), change.NewStream(configMaps, ns, "app=a", ""), testOptions(), l, &quietObserver{})
	l.awaitStarted(t)
	update := func(name, label string) change.ResourceVersion {
		o := must[*corev1.ConfigMap](t)(api.Update(t.Context(), configMap(name, map[string]string{"app": label}), metav1.UpdateOptions{}))
		return change.ResourceVersion(o.ResourceVersion)
	}
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("x", map[string]string{"app": "b"}), metav1.CreateOptions{}))
	entered := update("x", "a")
	left := update("x", "c")
	again := update("x", "a")
	l.awaitLog(t, "c x", "d x", "c x")
	for i, version := range []change.ResourceVersion{entered, left, again} {
		if l.changes[i].ResourceVersion != version || l.changes[i].Inferred {
			t.Errorf("change %d is %s @%s, want it @%s", i, l.changes[i].Op, l.changes[i].ResourceVersion, version)
		}
	}
	g.hold() // the same, unseen
	left, again = update("x", "b"), update("x", "a")
	g.release(true)
	l.awaitLog(t, "c x", "d x", "c x", "d x", "c x")
	if l.changes[3].ResourceVersion != left || l.changes[4].ResourceVersion != again || !onlyGap(t, l).Complete {
		t.Errorf("recovered d @%s, c @%s, want them @%s and @%s; %+v", l.changes[3].ResourceVersion, l.changes[4].ResourceVersion, left, again, gaps(l.controls))
	}
}

func TestObjectsEnterAndLeaveAFieldSelector(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().Pods(ns)
	l := newLedger()
	pods := change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	startStream(t, k.Config, change.NewStream(pods, ns, "", "status.phase=Running"), testOptions(), l, &quietObserver{})
	l.awaitStarted(t)
	pod := must[*corev1.Pod](t)(api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{}))
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		pod.Status.Phase = phase
		pod = must[*corev1.Pod](t)(api.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))
	}
	l.awaitLog(t, "c p", "d p")
}

func TestFinalizersDeleteCollectionAndNamespaces(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	client := kubernetes.NewForConfigOrDie(k.Config)
	api := client.CoreV1().ConfigMaps(ns)
	l, namespaces := newLedger(), newLedger()
	startStream(t, k.Config, change.NewStream(configMaps, ns, "", ""), testOptions(), l, &quietObserver{})
	startStream(t, k.Config, change.NewStream(change.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}, "", "", "metadata.name="+ns),
		testOptions(), namespaces, &quietObserver{})
	l.awaitStarted(t)
	namespaces.awaitStarted(t)
	held := configMap("held", nil)
	held.Finalizers = []string{"example.com/hold"}
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), held, metav1.CreateOptions{}))
	mustDo(t, api.Delete(t.Context(), "held", metav1.DeleteOptions{}))
	must[*corev1.ConfigMap](t)(api.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	l.awaitLog(t, "c held", "u held", "d held")
	if !strings.Contains(string(l.changes[1].After), `"deletionTimestamp"`) {
		t.Errorf("the update does not say that the object is terminating: %s", l.changes[1].After)
	}
	for _, name := range []string{"a", "b"} {
		must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap(name, nil), metav1.CreateOptions{}))
	}
	mustDo(t, api.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	l.await(t, "the collection's end", func() bool { return len(l.objects) == 0 && len(l.changes) == 7 })
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("last", nil), metav1.CreateOptions{}))
	mustDo(t, client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	mustDo(t, api.Delete(t.Context(), "last", metav1.DeleteOptions{})) // the namespace controller's work
	must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Finalize(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		metav1.UpdateOptions{}))
	l.await(t, "the last object's end", func() bool { return len(l.objects) == 0 && len(l.changes) == 9 })
	namespaces.awaitLog(t, "r "+ns, "u "+ns, "d "+ns)
}

func TestMetadataOnly(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps(ns)
	g := newGateway(t, k.Config)
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("listed", nil), metav1.CreateOptions{}))
	l := newLedger()
	options := testOptions()
	options.MetadataOnly = true
	startStream(t, g.config(), change.NewStream(configMaps, ns, "", ""), options, l, &quietObserver{})
	l.awaitStarted(t)
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("watched", nil), metav1.CreateOptions{}))
	l.awaitLog(t, "r listed", "c watched")
	g.hold()
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("recovered", nil), metav1.CreateOptions{}))
	g.release(true)
	l.awaitLog(t, "r listed", "c watched", "c recovered")
	for _, c := range l.changes {
		var o struct {
			Kind, APIVersion string
			Metadata         metav1.ObjectMeta
			Data             map[string]string
		}
		mustDo(t, json.Unmarshal(c.After, &o))
		if o.Kind != "PartialObjectMetadata" || o.APIVersion != "meta.k8s.io/v1" || o.Metadata.Name != c.Name || o.Data != nil {
			t.Errorf("%s %s carries %s, want metadata and nothing else", c.Op, c.Name, c.After)
		}
	}
}
