package reflector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// What happens to objects, resources and permissions on a real server.

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
	deadline := time.Now().Add(40 * time.Second)
	l.await(t, "", func() bool { return len(l.changes) >= len(want) || time.Now().After(deadline) })
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
	ok(t, api.Delete(t.Context(), "held", metav1.DeleteOptions{}))
	must[*corev1.ConfigMap](t)(api.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	l.awaitLog(t, "c held", "u held", "d held")
	if !strings.Contains(string(l.changes[1].After), `"deletionTimestamp"`) {
		t.Errorf("the update does not say that the object is terminating: %s", l.changes[1].After)
	}
	for _, name := range []string{"a", "b"} {
		must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap(name, nil), metav1.CreateOptions{}))
	}
	ok(t, api.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	l.await(t, "the collection's end", func() bool { return len(l.objects) == 0 && len(l.changes) == 7 })
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("last", nil), metav1.CreateOptions{}))
	ok(t, client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	ok(t, api.Delete(t.Context(), "last", metav1.DeleteOptions{})) // the namespace controller's work
	ok(t, k.FinalizeNamespace(t.Context(), ns))
	l.await(t, "the last object's end", func() bool { return len(l.objects) == 0 && len(l.changes) == 9 })
	namespaces.awaitLog(t, "r "+ns, "u "+ns, "d "+ns)
}

// crd is a CustomResourceDefinition of widgets that serves and stores as told.
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
// on under the group and resource, and nothing is told twice.
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

// readConfigMaps is a role that may; the built-in ones are filled by a controller, and none runs here.
func readConfigMaps(t *testing.T, client kubernetes.Interface) rbacv1.RoleRef {
	t.Helper()
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "read-configmaps"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "read-configmaps"}
}

func TestPermissionWithdrawnAndGivenBack(t *testing.T) {
	k := ownKubernetes(t, servers.KubernetesOptions{Users: []servers.User{{Name: "reader", Token: "reader-token"}}})
	client := kubernetes.NewForConfigOrDie(k.Config)
	grant := func() {
		t.Helper()
		must[*rbacv1.ClusterRoleBinding](t)(client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: readConfigMaps(t, client),
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "reader"}}}, metav1.CreateOptions{}))
	}
	proxy := newProxy(t, k.Address)
	w := newWriter(t, k.Config, 9, []string{"default"})
	l, o := newLedger(), &quietObserver{}
	options := testOptions()
	options.MaxBackoff = time.Second
	startOn(t, k.UserConfig(proxy.Address, "reader-token"), options, l, o)
	o.awaitError(t, apierrors.IsForbidden)
	l.awaitRefusals(t, change.ControlStreamError)
	grant()
	l.awaitStarted(t)
	l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered)
	from := position(l)
	w.run(5)
	ok(t, client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "reader", metav1.DeleteOptions{}))
	o.forget()
	for i := 0; i < 50 && !o.saw(apierrors.IsForbidden); i++ { // the API server takes a moment to notice
		proxy.Drop()
		time.Sleep(300 * time.Millisecond)
	}
	w.run(10)
	o.awaitError(t, apierrors.IsForbidden)
	l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered, change.ControlStreamError)
	told := l.refusals()[2]
	if !strings.Contains(told.Cause, "forbidden") || string(told.ResourceVersion) != fmt.Sprint(position(l)) || told.SinceMs == 0 {
		t.Errorf("the refusal is told as %+v", told)
	}
	o.forget()
	for range 3 { // more of them are not told
		o.awaitError(t, apierrors.IsForbidden)
		o.forget()
	}
	grant()
	want := etcdSays(t, k, from)
	l.awaitPosition(t, want[len(want)-1][strings.Index(want[len(want)-1], "@")+1:])
	equalLogs(t, logSays(l.changes), want)
	l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered, change.ControlStreamError, change.ControlStreamRecovered)
}

// refusals are the records that tell of refusals.
func (l *ledger) refusals() (told []change.Control) {
	_, controls := l.snapshot()
	for _, c := range controls {
		if c.Type == change.ControlStreamError || c.Type == change.ControlStreamRecovered {
			told = append(told, c)
		}
	}
	return told
}

// awaitRefusals waits for as many, and demands that they are these.
func (l *ledger) awaitRefusals(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	var got []string
	for len(got) < len(want) && time.Now().Before(deadline) {
		l.mu.Lock()
		moved := l.moved
		l.mu.Unlock()
		got = nil
		for _, c := range l.refusals() {
			got = append(got, c.Type)
		}
		if len(got) >= len(want) {
			break
		}
		select {
		case <-moved:
		case <-time.After(time.Until(deadline)):
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("of refusals the log says %q, want %q", got, want)
	}
}

func (q *quietObserver) saw(is func(error) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, err := range q.errs {
		if is(err) {
			return true
		}
	}
	return false
}

func (q *quietObserver) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.errs = nil
}

func (q *quietObserver) awaitError(t *testing.T, is func(error) bool) {
	t.Helper()
	for range 600 {
		if q.saw(is) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the error was not reported")
}

// A token becomes invalid; a new one is written to the file (or given by the plugin): the stream goes on.
func TestCredentialsThatExpireAreReadAnew(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	client := kubernetes.NewForConfigOrDie(k.Config)
	account := func(t *testing.T, name string) string {
		t.Helper()
		must[*corev1.ServiceAccount](t)(client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		token := must[*authv1.TokenRequest](t)(client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authv1.TokenRequest{}, metav1.CreateOptions{}))
		return token.Status.Token
	}
	must[*rbacv1.RoleBinding](t)(client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:  readConfigMaps(t, client),
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "system:serviceaccounts:" + ns}}}, metav1.CreateOptions{}))
	for _, kind := range []string{"file", "plugin"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "token")
			write := func(token string) {
				text := token
				if kind == "plugin" {
					text = fmt.Sprintf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":%q}}`, token)
				}
				ok(t, os.WriteFile(file, []byte(text), 0o600))
			}
			write(account(t, kind+"-old"))
			proxy := newProxy(t, k.Address)
			config := k.UserConfig(proxy.Address, "")
			if config.BearerTokenFile = file; kind == "plugin" {
				config.BearerTokenFile = ""
				config.ExecProvider = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "cat", Args: []string{file},
					InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
			}
			l, o := newLedger(), &quietObserver{}
			options := testOptions()
			options.MaxBackoff = time.Second
			startStream(t, config, change.NewStream(configMaps, ns, "", ""), options, l, o)
			l.awaitStarted(t)
			ok(t, client.CoreV1().ServiceAccounts(ns).Delete(t.Context(), kind+"-old", metav1.DeleteOptions{}))
			for i := 0; i < 100 && !o.saw(apierrors.IsUnauthorized); i++ { // the API server remembers tokens for ten seconds
				proxy.Drop()
				time.Sleep(300 * time.Millisecond)
			}
			if !o.saw(apierrors.IsUnauthorized) {
				t.Fatal("the old token is still taken")
			}
			must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps(ns).Create(context.Background(), configMap(kind, nil), metav1.CreateOptions{}))
			write(account(t, kind+"-new"))
			l.await(t, "the change", func() bool { _, found := l.objects[ns+"/"+kind]; return found })
		})
	}
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
		ok(t, json.Unmarshal(c.After, &o))
		if o.Kind != "PartialObjectMetadata" || o.APIVersion != "meta.k8s.io/v1" || o.Metadata.Name != c.Name || o.Data != nil {
			t.Errorf("%s %s carries %s, want metadata and nothing else", c.Op, c.Name, c.After)
		}
	}
}
