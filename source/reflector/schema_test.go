package reflector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// withMembers gives the versions of a CRD a schema of string members m1, m2, …, which prunes all others.
func withMembers(u *unstructured.Unstructured, n int) *unstructured.Unstructured {
	members := map[string]any{}
	for i := range n {
		members[fmt.Sprintf("m%d", i+1)] = map[string]any{"type": "string"}
	}
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		v.(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": members}}
	}
	_ = unstructured.SetNestedSlice(u.Object, versions, "spec", "versions")
	return u
}

// growing makes a CRD of widgets whose schema has so many members, and returns what gives it others, and the widgets of a namespace.
func growing(t *testing.T, config *rest.Config, group, namespace string, members int) (grow func(n int), widgets dynamic.ResourceInterface) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(config)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	made := must[*unstructured.Unstructured](t)(crds.Create(t.Context(), withMembers(crd(group, []string{"v1"}, "v1"), members), metav1.CreateOptions{}))
	t.Cleanup(func() { _ = crds.Delete(context.WithoutCancel(t.Context()), made.GetName(), metav1.DeleteOptions{}) })
	grow = func(n int) {
		now := must[*unstructured.Unstructured](t)(crds.Get(t.Context(), made.GetName(), metav1.GetOptions{}))
		must[*unstructured.Unstructured](t)(crds.Update(t.Context(), withMembers(now, n), metav1.UpdateOptions{}))
	}
	return grow, client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(namespace)
}

// A CRD's schema gains a member, again and again, while its watch is open and objects are written with that member. Each object that the
// watch has delivered without it is corrected, and no other one.
func TestASchemaThatGainsAMemberWhileItIsWatched(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	group := ns + ".example.com"
	grow, widgets := growing(t, k.Config, group, ns, 0)
	l := newLedger()
	follow(t, k.Config, "*."+group, l)
	l.awaitStarted(t)
	stored := map[string]change.ResourceVersion{} // objects that have the member
	corrected := func() bool {
		for _, c := range l.changes {
			if c.Inferred && c.Op == change.Update {
				return true
			}
		}
		return false
	}
	recorded := func(name, member string) bool {
		for i := len(l.changes) - 1; i >= 0; i-- {
			if c := l.changes[i]; c.Name == name {
				var o map[string]any
				_ = json.Unmarshal(c.After, &o)
				return o[member] == "x" && c.ResourceVersion == stored[name]
			}
		}
		return false
	}
	for round := 1; round <= 10; round++ {
		grow(round)
		member := fmt.Sprintf("m%d", round)
		for i, until := 0, time.Now().Add(3*time.Second); time.Now().Before(until); i++ {
			name := fmt.Sprintf("w%d-%d", round, i)
			o, err := widgets.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget",
				"metadata": map[string]any{"name": name}, member: "x"}}, metav1.CreateOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			mustDo(t, err)
			if o.Object[member] == "x" {
				stored[name] = change.ResourceVersion(o.GetResourceVersion())
			}
		}
		l.await(t, "all objects with their member", func() bool {
			for name := range stored {
				if name[:len(fmt.Sprint(round))+2] == fmt.Sprintf("w%d-", round) && !recorded(name, member) {
					return false
				}
			}
			return true
		})
		l.mu.Lock()
		done := corrected()
		l.mu.Unlock()
		if done {
			t.Logf("%d objects, corrected in round %d: %+v", len(stored), round, gaps(l.controls))
			return
		}
	}
	t.Skip("the server pruned nothing in ten rounds")
}

// badRoad fails one request of twenty, but not watches, and counts those that come for widgets.
type badRoad struct {
	next  http.RoundTripper
	asked *atomic.Int64
}

func (b badRoad) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/widgets") {
		b.asked.Add(1)
	}
	if !r.URL.Query().Has("watch") && rand.IntN(20) == 0 {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return b.next.RoundTrip(r)
}

// The schema changes again and again while thousands of objects are written, and one request of twenty fails. The stream follows, and
// makes few more requests than a list takes.
func TestSlowASchemaChangesOnABadRoad(t *testing.T) {
	servers.Slow(t)
	k, ns := servers.Lend(t), servers.Namespace(t)
	group := ns + ".example.com"
	grow, widgets := growing(t, k.Config, group, "default", 0)
	var asked atomic.Int64
	config := rest.CopyConfig(k.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return badRoad{next, &asked} })
	l, options := newLedger(), testOptions()
	options.PageSize = 500
	followBy(t, config, "*."+group, options, l)
	l.awaitStarted(t)
	const objects, rounds = 4000, 5
	began := time.Now()
	for round := range rounds {
		var writers errgroup.Group
		for n := range 8 {
			writers.Go(func() error {
				for i := n; i < objects/rounds; i += 8 {
					o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprintf("w%d-%d", round, i)}, "m1": "x"}}
					if _, err := widgets.Create(t.Context(), o, metav1.CreateOptions{}); err != nil && !apierrors.IsNotFound(err) {
						return err
					}
				}
				return nil
			})
		}
		grow(round + 1)
		mustDo(t, writers.Wait())
	}
	written := time.Since(began)
	l.awaitPosition(t, strconv.FormatInt(revision(t, k), 10))
	t.Logf("written in %s, followed %s later with %d requests", written.Round(time.Second), (time.Since(began) - written).Round(time.Second), asked.Load())
	if n := asked.Load(); n > objects/10 {
		t.Errorf("%d requests for %d objects", n, objects)
	}
}
