package reflector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/change"
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

// A CRD appears, serves other versions, stores in another one, goes with its objects, and comes back: the stream goes
// on under the group and resource, and nothing is emitted twice.
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
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			_, err := widgets(version).Create(t.Context(), u, metav1.CreateOptions{})
			if err == nil {
				return
			}
			if time.Now().After(deadline) || !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
				t.Fatal(err)
			}
		}
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
	ok(t, crds.Delete(t.Context(), "widgets."+group, metav1.DeleteOptions{}))
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
	for range 300 {
		if made, err = crds.Create(t.Context(), u, metav1.CreateOptions{}); err == nil {
			return made, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, err
}

// follow runs one stream of what discovery selects, as the exporter does.
func follow(t *testing.T, config *rest.Config, pattern string, l *ledger) {
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
				stream, _ = startStream(t, config, change.NewStream(s.Resources[0], "", "", ""), testOptions(), l, &quietObserver{})
			}
		})
	}()
}
