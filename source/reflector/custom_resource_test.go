package reflector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// crd is a CustomResourceDefinition of widgets that serves and stores the given versions.
func crd(group string, served []string, storage string) *unstructured.Unstructured {
	var versions []string
	for _, v := range []string{"v1", "v1beta1"} {
		versions = append(versions, fmt.Sprintf(`{"name":%q,"served":%t,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`,
			v, strings.Contains(strings.Join(served, " ")+" ", v+" "), v == storage))
	}
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.%s"},
		"spec":{"group":%q,"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[%s]}}`, group, group, strings.Join(versions, ","))
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err)
	}
	return u
}

// A CRD appears, serves other versions, stores in another one, goes with its objects, and comes back. The stream goes on under the group
// and resource, and nothing is emitted twice.
func TestACustomResourceThroughItsLife(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	group := ns + ".example.com"
	client := dynamic.NewForConfigOrDie(k.Config)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	widgets := func(version string) dynamic.ResourceInterface {
		return client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}).Namespace(ns)
	}
	l := newLedger()
	follow(t, k.Config, "*."+group, l)
	apply := func(u *unstructured.Unstructured) {
		t.Helper()
		old := must[*unstructured.Unstructured](t)(crds.Get(t.Context(), u.GetName(), metav1.GetOptions{}))
		u.SetResourceVersion(old.GetResourceVersion())
		must[*unstructured.Unstructured](t)(crds.Update(t.Context(), u, metav1.UpdateOptions{}))
	}
	create := func(version, name string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/" + version, "kind": "Widget",
			"metadata": map[string]any{"name": name}, "size": int64(1)}}
		servers.Await(t, "widgets to be served", func() (bool, error) {
			_, err := widgets(version).Create(t.Context(), u, metav1.CreateOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				return false, nil
			}
			return err == nil, err
		})
	}
	must[*unstructured.Unstructured](t)(crds.Create(t.Context(), crd(group, []string{"v1", "v1beta1"}, "v1"), metav1.CreateOptions{}))
	l.awaitStarted(t)
	create("v1", "a")
	l.awaitLog(t, "c a")
	apply(crd(group, []string{"v1", "v1beta1"}, "v1beta1")) // the storage version changes
	create("v1beta1", "b")
	l.awaitLog(t, "c a", "c b")
	apply(crd(group, []string{"v1beta1"}, "v1beta1")) // v1 is not served any more
	create("v1beta1", "d")
	l.awaitLog(t, "c a", "c b", "c d")
	if after := string(l.changes[2].After); !strings.Contains(after, group+"/v1beta1") {
		t.Errorf("after v1 is gone, objects are read as %s", after)
	}
	mustDo(t, crds.Delete(t.Context(), "widgets."+group, metav1.DeleteOptions{}))
	l.await(t, "the objects' end", func() bool { return len(l.objects) == 0 })
	must[*unstructured.Unstructured](t)(waitAndCreate(t, crds, crd(group, []string{"v1"}, "v1")))
	create("v1", "a")
	l.await(t, "the new object", func() bool { return len(l.objects) == 1 })
	changes, controls := l.snapshot()
	noneTwice(t, changes)
	if len(changes) != 7 {
		t.Errorf("the log says %s, want seven changes", says(l))
	}
	for _, gap := range gaps(controls) { // another version has another watch cache: 410 is in order
		if !gap.Complete {
			t.Errorf("gap record %+v", gap)
		}
	}
}

func waitAndCreate(t *testing.T, crds dynamic.ResourceInterface, u *unstructured.Unstructured) (made *unstructured.Unstructured, err error) {
	t.Helper()
	servers.Await(t, "it to be created", func() (bool, error) {
		made, err = crds.Create(t.Context(), u, metav1.CreateOptions{})
		return err == nil, nil
	})
	return made, err
}

// follow runs one stream of what discovery selects, as the exporter does.
func follow(t *testing.T, config *rest.Config, pattern string, l *ledger) {
	t.Helper()
	followBy(t, config, pattern, testOptions(), l)
}

func followBy(t *testing.T, config *rest.Config, pattern string, options reflector.Options, l *ledger) {
	t.Helper()
	api := must[*discovery.Server](t)(discovery.Connect(config))
	patterns := must[[]discovery.Pattern](t)(discovery.ParsePatterns([]string{pattern}))
	var stream *reflector.Reflector
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		api.Follow(ctx, patterns, 10*time.Second, slog.New(slog.DiscardHandler), func(s discovery.Selection) {
			switch {
			case len(s.Resources) == 0 && stream != nil:
				stream.SetResource(nil)
			case len(s.Resources) == 1 && stream != nil:
				stream.SetResource(&s.Resources[0])
			case len(s.Resources) == 1:
				stream, _ = startStream(t, config, change.NewStream(s.Resources[0], "", "", ""), options, l, &quietObserver{})
			}
		})
	}()
}

// The storage version of a CRD changes, all objects are written again, and the old version is removed. From then on the server fails to
// read what was stored before. What it can read is recovered, the gap record says why the rest is not, and another stream neither waits
// nor is slowed down.
func TestAPastStoredInAVersionThatWasRemoved(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	group := ns + ".example.com"
	client := dynamic.NewForConfigOrDie(k.Config)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	widgets := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(ns)
	maps := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps(ns)
	apply := func(u *unstructured.Unstructured) {
		t.Helper()
		old := must[*unstructured.Unstructured](t)(crds.Get(t.Context(), u.GetName(), metav1.GetOptions{}))
		u.SetResourceVersion(old.GetResourceVersion())
		must[*unstructured.Unstructured](t)(crds.Update(t.Context(), u, metav1.UpdateOptions{}))
	}
	must[*unstructured.Unstructured](t)(crds.Create(t.Context(), crd(group, []string{"v1", "v1beta1"}, "v1beta1"), metav1.CreateOptions{}))
	sets := 0
	set := func() (last string) {
		t.Helper()
		sets++
		for _, name := range []string{"a", "b", "c"} {
			last = setWidget(t, widgets, group, name, int64(sets))
			must[*corev1.ConfigMap](t)(maps.Create(t.Context(), configMap(fmt.Sprint(name, sets), nil), metav1.CreateOptions{}))
		}
		return last
	}
	set()
	log := &recorder{}
	options := testOptions()
	options.Recovery = reflector.NewRecovery(100, 500, slog.New(slog.NewTextHandler(log, nil)))
	options.Recovery.Parallel, options.Recovery.MaxRevisions = 4, 100_000
	resource := change.Resource{Group: group, Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
	g1, g2, l, other := newGateway(t, k.Config), newGateway(t, k.Config), newLedger(), newLedger()
	startStream(t, g1.config(), change.NewStream(resource, ns, "", ""), options, l, &quietObserver{})
	startStream(t, g2.config(), change.NewStream(configMaps, ns, "", ""), options, other, &quietObserver{})
	l.awaitStarted(t)
	other.awaitStarted(t)
	g1.hold()
	g2.hold()
	set()
	apply(crd(group, []string{"v1", "v1beta1"}, "v1"))
	migrated := set()
	for !storedAs(t, k, group, "v1") { // the API server takes a moment to notice
		migrated = set()
	}
	onlyV1(t, crds, "widgets."+group)
	awaitLost(t, k.Config, group, ns, other.position)
	last := set()
	g1.release(true)
	g2.release(true)
	other.await(t, "the neighbour's changes", func() bool { return len(other.changes) == 3*sets })
	l.awaitPosition(t, last)
	if gap := onlyGap(t, other); !gap.Complete || gap.Recovered != 3*sets-3 {
		t.Errorf("the neighbour's gap record %+v", gap)
	}
	gap := onlyGap(t, l)
	if gap.Complete || !strings.Contains(gap.Reason, "can't read its history") || strings.Contains(gap.Reason, "compacted") {
		t.Errorf("gap record %+v, want one that says what the server can't read", gap)
	}
	for _, c := range l.changes {
		if c.ResourceVersion.Compare(change.ResourceVersion(migrated)) > 0 && c.Inferred {
			t.Errorf("%s %s @%s is inferred, and can be read", c.Op, c.Name, c.ResourceVersion)
		}
	}
	t.Logf("%s; %s; %d requests in %d ms", says(l), gap.Reason, gap.Requests, gap.ElapsedMs)
}

// setWidget creates a widget, or updates it.
func setWidget(t *testing.T, widgets dynamic.ResourceInterface, group, name string, size int64) (version string) {
	t.Helper()
	servers.Await(t, "the widget to be written", func() (bool, error) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "size": size}}
		old, err := widgets.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			u.SetResourceVersion(old.GetResourceVersion())
			u, err = widgets.Update(t.Context(), u, metav1.UpdateOptions{})
		} else if apierrors.IsNotFound(err) {
			u, err = widgets.Create(t.Context(), u, metav1.CreateOptions{})
		}
		if err == nil {
			version = u.GetResourceVersion()
		}
		return err == nil, nil
	})
	return version
}

// storedAs reports whether all widgets are stored in the version.
func storedAs(t *testing.T, k *servers.Kubernetes, group, version string) bool {
	t.Helper()
	last := map[string]string{} // a write that failed may be stored, so that an object has more writes than others
	for _, e := range must[[]servers.EtcdEvent](t)(k.EtcdHistory(t.Context(), "/registry/"+group+"/widgets/", 1)) {
		last[e.Key] = string(e.Value)
	}
	for _, value := range last {
		if !strings.HasPrefix(value, `{"apiVersion":"`+group+"/"+version+`"`) { // managedFields have versions, too
			return false
		}
	}
	return true
}

// onlyV1 removes the other version, after its objects were stored anew.
func onlyV1(t *testing.T, crds dynamic.ResourceInterface, name string) {
	t.Helper()
	must[*unstructured.Unstructured](t)(crds.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"storedVersions":["v1"]}}`),
		metav1.PatchOptions{}, "status"))
	must[*unstructured.Unstructured](t)(crds.Patch(t.Context(), name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/versions/1"}]`),
		metav1.PatchOptions{}))
}

// awaitLost waits until the API server fails to read the past.
func awaitLost(t *testing.T, config *rest.Config, group, ns string, version change.ResourceVersion) {
	t.Helper()
	widgets := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(ns)
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the last answer, of version %s: %v", version, err)
		}
	}()
	servers.Await(t, "the past to be unreadable", func() (bool, error) {
		_, err = widgets.List(t.Context(), metav1.ListOptions{ResourceVersion: string(version), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		return apiclient.IsInternal(err), nil
	})
}
