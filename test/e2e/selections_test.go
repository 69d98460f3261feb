package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// selection is the part of the ConfigMaps that one start of the exporter selects.
type selection struct {
	namespaces []string // or nil for all
	labels     string
}

func (s selection) stream(namespace string) change.StreamID {
	return change.NewStream(change.Resource{Plural: "configmaps"}, namespace, s.labels, "").ID()
}

func (s selection) env() []string {
	return []string{"KUBECDC_NAMESPACES", strings.Join(s.namespaces, ","), "KUBECDC_LABEL_SELECTOR", s.labels}
}

// overlaps reports whether a stream of one selection and a different one of the other may have the same objects.
func (s selection) overlaps(other selection) bool {
	for _, a := range s.each() {
		for _, b := range other.each() {
			if (a == b || a == "" || b == "") && s.stream(a) != other.stream(b) {
				return true
			}
		}
	}
	return false
}

// each returns the namespaces of the streams, or "" for all.
func (s selection) each() []string {
	if len(s.namespaces) == 0 {
		return []string{""}
	}
	return s.namespaces
}

var selections = []selection{{}, {[]string{"default"}, ""}, {[]string{"kube-public"}, ""}, {[]string{"default", "kube-public"}, ""},
	{nil, "app=a"}, {nil, "app=b"}, {[]string{"default"}, "app=a"}}

// Settings select one part of a resource after another, in random order, while objects change and move between the parts. A
// selection that would mix the changes of two streams under one key is refused at the start. After each other start the log has
// each selected object in its present state, and no other one within the selection. It has every change of a key once and in order.
func TestRandomSelectionsOneAfterAnother(t *testing.T) {
	t.Parallel()
	kafka := NewWorld(t)
	tables := &World{Kube: kafka.Kube, Postgres: kafka.Postgres, Prefix: kafka.Prefix}
	tables.Env = kafka.With("KUBECDC_SINK", "postgres", "KUBECDC_CLUSTER", "tables")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 7))
	for _, w := range []*World{kafka, tables} {
		slots := 1 + random.IntN(2)
		w.Env = w.With("KUBECDC_RESOURCES", "configmaps", "KUBECDC_SLOTS", fmt.Sprint(slots))
		var accepted []selection
		for range 5 {
			next := selections[random.IntN(len(selections))]
			if len(accepted) > 0 && random.IntN(3) > 0 { // so that it is within the first selection, perhaps
				next = accepted[0]
				if len(next.namespaces) > 0 && next.labels == "" {
					next = selections[1+random.IntN(3)]
				}
			}
			refused := slices.ContainsFunc(accepted, next.overlaps)
			writeLabelled(t, kafka.Kube, random, 25)
			if slots == 1 && random.IntN(3) == 0 { // the earlier selection is then only in the log
				servers.Exec(t, w.Postgres.URL, `drop schema if exists kubecdc cascade`)
			}
			e := StartExporter(t, "an exporter", w.With(next.env()...))
			if refused {
				if code := e.Wait(t); code != 2 {
					t.Fatalf("%v after %v: the exit code is %d, want 2", next, accepted, code)
				}
				e.awaitLogged(t, "KUBECDC_", "begin another log")
				continue
			}
			accepted = append(accepted, next)
			e.AwaitReady(t)
			writeLabelled(t, kafka.Kube, random, 25)
			wantSelected(t, w, next, markSelected(t, kafka.Kube, next, random))
			e.stop(t)
		}
		t.Logf("%s: %v", w.Env["KUBECDC_SINK"], accepted)
	}
}

// writeLabelled creates, updates and deletes ConfigMaps, and moves them between two labels.
func writeLabelled(t *testing.T, k *servers.Kubernetes, random *rand.Rand, n int) {
	t.Helper()
	ctx := context.Background()
	for i := range n {
		api := dynamic.NewForConfigOrDie(k.Config).Resource(ConfigMaps.GVR).Namespace([]string{"default", "kube-public"}[random.IntN(2)])
		name := fmt.Sprint("s", random.IntN(6))
		o := sample(ConfigMaps, name, i, 0)
		o.SetLabels(map[string]string{"app": []string{"a", "b"}[random.IntN(2)]})
		_, err := api.Create(ctx, o, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err) && random.IntN(4) == 0:
			err = api.Delete(ctx, name, metav1.DeleteOptions{})
		case apierrors.IsAlreadyExists(err):
			body, _ := o.MarshalJSON()
			_, err = api.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		}
		must(t, err)
	}
}

// markSelected creates one more object in each stream, and returns their versions.
func markSelected(t *testing.T, k *servers.Kubernetes, s selection, random *rand.Rand) map[change.StreamID]change.ResourceVersion {
	t.Helper()
	versions := map[change.StreamID]change.ResourceVersion{}
	for _, ns := range s.each() {
		o := sample(ConfigMaps, fmt.Sprint("mark", random.Uint32()), 0, 0)
		o.SetLabels(map[string]string{"app": strings.TrimPrefix(s.labels, "app=")})
		namespace := ns
		if namespace == "" {
			namespace = "default"
		}
		made, err := dynamic.NewForConfigOrDie(k.Config).Resource(ConfigMaps.GVR).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{})
		must(t, err)
		versions[s.stream(ns)] = change.ResourceVersion(made.GetResourceVersion())
	}
	return versions
}

// wantSelected demands that the log has, key by key, the cluster's objects wherever the selection selects them.
func wantSelected(t *testing.T, w *World, s selection, versions map[change.StreamID]change.ResourceVersion) {
	t.Helper()
	v, live := &Verdict{}, map[string]Record{}
	for key, records := range w.awaitMarks(t, versions).ByKey(w.Prefix, ConfigMaps) {
		v.InOrder(ConfigMaps, key, records)
		ns, _ := change.SplitKey(key)
		if last := records[len(records)-1]; last.Op != "" && last.Op != "d" && (len(s.namespaces) == 0 || slices.Contains(s.namespaces, ns)) {
			live[key] = last
		}
	}
	for _, ns := range s.each() {
		list, err := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(ConfigMaps.GVR).Namespace(ns).
			List(context.Background(), metav1.ListOptions{LabelSelector: s.labels})
		must(t, err)
		for _, o := range list.Items {
			key := change.ObjectKey(o.GetNamespace(), o.GetName())
			if got := live[key]; string(got.Version) != o.GetResourceVersion() {
				v.Report(&v.Wrong, "%s lives at %s, and in the log it is %q at %q", key, o.GetResourceVersion(), got.Op, got.Version)
			}
			delete(live, key)
		}
	}
	for key := range live {
		v.Report(&v.Wrong, "%s lives in the log, and is not selected", key)
	}
	v.Demand(t, 0)
}
