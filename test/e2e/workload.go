package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Kinds are the five kinds that most tests write: built-in ones of three groups, and a custom resource. Events are not among them,
// since they have no watch cache.
var (
	ConfigMaps  = kindOf("", "v1", "configmaps")
	Secrets     = kindOf("", "v1", "secrets")
	Pods        = kindOf("", "v1", "pods")
	Events      = kindOf("", "v1", "events")
	Deployments = kindOf("apps", "v1", "deployments")
	Budgets     = kindOf("policy", "v1", "poddisruptionbudgets")
	Roles       = kindOf("rbac.authorization.k8s.io", "v1", "roles")
	Widgets     = customKind("example.com", "v1", "widgets")
	Kinds       = []Kind{ConfigMaps, Secrets, Deployments, Roles, Widgets}
)

func kindOf(group, version, resource string) Kind {
	return Kind{GVR: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Prefix: "/registry/" + resource + "/"}
}

func customKind(group, version, resource string) Kind {
	k := kindOf(group, version, resource)
	k.Prefix = "/registry/" + group + "/" + resource + "/"
	return k
}

// Resources returns KUBECDC_RESOURCES for the kinds.
func Resources(kinds []Kind) string {
	var ids []string
	for _, k := range kinds {
		ids = append(ids, k.ID())
	}
	return strings.Join(ids, ",")
}

// InstallWidgets installs the custom resource, unless it is installed, and waits until it can be written.
func InstallWidgets(t testing.TB, config *rest.Config) { installCRD(t, config, Widgets) }

// CRD returns a definition of widgets, in the kind's group, whose objects have a schema.
func CRD(kind Kind, schema map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": kind.ID()},
		"spec": map[string]any{
			"group": kind.GVR.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
				"shortNames": []any{"wdg"}},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}},
		},
	}}
}

func crds(config *rest.Config) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(config).Resource(kindOf("apiextensions.k8s.io", "v1", "customresourcedefinitions").GVR)
}

// installCRD installs a definition of widgets that accepts any contents.
func installCRD(t testing.TB, config *rest.Config, kind Kind) {
	t.Helper()
	crd := CRD(kind, map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true})
	_, err := crds(config).Create(context.Background(), crd, metav1.CreateOptions{})
	must(t, ignore(err, apierrors.IsAlreadyExists))
	Await(t, "the CRD to be served", func() (bool, error) {
		_, err := dynamic.NewForConfigOrDie(config).Resource(kind.GVR).Namespace("default").List(context.Background(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// RemoveWidgets removes the custom resource, its objects with it, and waits until both are gone.
func RemoveWidgets(t testing.TB, config *rest.Config) {
	t.Helper()
	must(t, crds(config).Delete(context.Background(), "widgets.example.com", metav1.DeleteOptions{}))
	Await(t, "the CRD to be gone", func() (bool, error) {
		_, err := crds(config).Get(context.Background(), "widgets.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// Writer makes random changes of several kinds: creations, updates, deletions, and names that are used again.
type Writer struct {
	t      testing.TB
	random *rand.Rand
	config *rest.Config
	client dynamic.Interface
	kinds  []Kind
	user   string
	Names  int // number of names in a kind and namespace
	Pad    int // bytes of padding in each object
	alive  map[string]bool
	Made   atomic.Int64
}

// NewWriter returns a writer whose choices follow from the seed.
func NewWriter(t testing.TB, config *rest.Config, seed uint64, kinds []Kind) *Writer {
	return &Writer{t: t, random: rand.New(rand.NewPCG(seed, 2)), config: config, client: dynamic.NewForConfigOrDie(config), kinds: kinds,
		Names: 12, alive: map[string]bool{}}
}

// As sets the user of the next changes. The pods that they change have the user in a label.
func (w *Writer) As(user string) {
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	w.user, w.client = user, dynamic.NewForConfigOrDie(config)
}

// Run makes n changes.
func (w *Writer) Run(n int) {
	for range n {
		w.one()
	}
}

// Start makes changes at about the rate until stop is called, or the test has failed.
func (w *Writer) Start(perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(time.Second / time.Duration(perSecond)); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				w.one()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// atOnce also deletes pods at once, since no kubelet ends them.
var atOnce = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

var writeNamespaces = []string{"default", "kube-public", "kube-node-lease"}

func (w *Writer) one() {
	kind := w.kinds[w.random.IntN(len(w.kinds))]
	ns, name := writeNamespaces[w.random.IntN(len(writeNamespaces))], fmt.Sprintf("n%d", w.random.IntN(w.Names))
	key := kind.ID() + " " + ns + "/" + name
	object := w.object(kind, name, int(w.Made.Add(1)), w.Pad)
	if kind == Events { // its involvedObject must be in its own namespace
		_ = unstructured.SetNestedField(object.Object, ns, "involvedObject", "namespace")
	}
	remove := w.alive[key] && w.random.IntN(4) == 0
	var subresource []string
	if kind == Pods && w.alive[key] { // its spec is immutable
		delete(object.Object, "spec")
		subresource = []string{"status"}
	}
	api := w.client.Resource(kind.GVR).Namespace(ns)
	w.insist(func(ctx context.Context) error {
		switch {
		case remove:
			return ignore(api.Delete(ctx, name, atOnce), apierrors.IsNotFound)
		case w.alive[key]:
			body, _ := object.MarshalJSON()
			_, err := api.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, subresource...)
			return err
		default:
			_, err := api.Create(ctx, object, metav1.CreateOptions{})
			return ignore(err, apierrors.IsAlreadyExists)
		}
	})
	w.alive[key] = !remove
}

func ignore(err error, which func(error) bool) error {
	if which(err) {
		return nil // an earlier attempt succeeded after all
	}
	return err
}

// insist repeats a change while the API server is away. The judge asks etcd what was really done.
func (w *Writer) insist(change func(context.Context) error) {
	for clock := servers.StartClock(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := change(ctx)
		cancel()
		if err == nil || w.t.Context().Err() != nil {
			return
		}
		if !away(err) || clock.Late() {
			w.t.Errorf("write: %v", err)
			return
		}
		time.Sleep(20 * time.Millisecond) // between two attempts
	}
}

func away(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsNotFound(err) || strings.Contains(err.Error(), "connection") || strings.Contains(err.Error(), "EOF") || errors.Is(err, context.DeadlineExceeded)
}

func sample(kind Kind, name string, n, pad int) *unstructured.Unstructured {
	o := map[string]any{"metadata": map[string]any{"name": name, "annotations": map[string]any{"n": strconv.Itoa(n), "pad": strings.Repeat("x", pad)}}}
	switch kind {
	case ConfigMaps:
		o["apiVersion"], o["kind"], o["data"] = "v1", "ConfigMap", map[string]any{"n": strconv.Itoa(n), "html": "<a href=\"x\">&</a>\u2028",
			"odd": "\"'`\\ \t\n größe 数 🐙", "null": "null"} // careless parsers get these wrong
	case Pods:
		o["apiVersion"], o["kind"], o["status"] = "v1", "Pod", map[string]any{"phase": []string{"Pending", "Running", "Succeeded"}[n%3]}
		o["spec"] = map[string]any{"nodeName": fmt.Sprint("node-", n%7), "containers": []any{map[string]any{"name": "c", "image": "example.com/i:1"}}}
	case Secrets:
		o["apiVersion"], o["kind"], o["stringData"] = "v1", "Secret", map[string]any{"n": strconv.Itoa(n)}
	case Events:
		o["apiVersion"], o["kind"], o["reason"] = "v1", "Event", "Tested"
		o["involvedObject"] = map[string]any{"kind": "ConfigMap", "namespace": "default", "name": name}
	case Budgets:
		o["apiVersion"], o["kind"], o["spec"] = "policy/v1", "PodDisruptionBudget", map[string]any{"maxUnavailable": int64(n % 5)}
	case Roles:
		o["apiVersion"], o["kind"] = "rbac.authorization.k8s.io/v1", "Role"
		o["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}
	case Widgets:
		o["apiVersion"], o["kind"], o["spec"] = "example.com/v1", "Widget", map[string]any{"n": int64(n), "ratio": 0.1}
	case Deployments:
		o["apiVersion"], o["kind"] = "apps/v1", "Deployment"
		labels := map[string]any{"app": name}
		o["spec"] = map[string]any{"replicas": int64(n % 5), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/i:1"}}}}}
	}
	return &unstructured.Unstructured{Object: o}
}

// object returns a sample by the writer's user.
func (w *Writer) object(kind Kind, name string, n, pad int) *unstructured.Unstructured {
	o := sample(kind, name, n, pad)
	if kind == Pods {
		o.SetLabels(map[string]string{"by": w.user})
	}
	return o
}

// mark creates an object of the kind and returns its resourceVersion.
func (w *Writer) mark(kind Kind) (version change.ResourceVersion) {
	api := w.client.Resource(kind.GVR).Namespace("default")
	w.insist(func(ctx context.Context) error {
		o, err := api.Create(ctx, w.object(kind, fmt.Sprintf("mark%d", w.Made.Add(1)), 0, 0), metav1.CreateOptions{})
		if err == nil {
			version = change.ResourceVersion(o.GetResourceVersion())
		}
		return err
	})
	return version
}

// Fill creates n more objects of each kind, which the writer does not change, and returns the writer.
func (w *Writer) Fill(n int) *Writer {
	for _, kind := range w.kinds {
		for i := range n {
			w.insist(func(ctx context.Context) error {
				_, err := w.client.Resource(kind.GVR).Namespace("default").Create(ctx, w.object(kind, fmt.Sprintf("fill%d", i), i, w.Pad), metav1.CreateOptions{})
				return ignore(err, apierrors.IsAlreadyExists)
			})
		}
	}
	return w
}
