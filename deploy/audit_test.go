package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kubecdc/test/e2e"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// audited is an API server whose audit log has each request that it answered.
type audited struct {
	*servers.Kubernetes
	log   string
	admin *kubernetes.Clientset
}

func startAudited(t *testing.T) *audited {
	t.Helper()
	servers.Need(t)
	policy, log := filepath.Join(t.TempDir(), "policy.yaml"), filepath.Join(t.TempDir(), "audit.log")
	text := `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}`
	must(t, os.WriteFile(policy, []byte(text), 0o600))
	kube, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{
		APIServerFlags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}})
	must(t, err)
	t.Cleanup(func() { _ = kube.Stop() })
	return &audited{kube, log, clientset(t, kube.Config)}
}

// exporterRBAC returns the objects that exporter rbac prints for these settings, run by the admin.
func exporterRBAC(t *testing.T, kubeconfig string, env map[string]string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	c := e2e.Command(t, env, append([]string{"rbac"}, args...)...)
	c.Env = append(c.Env, "KUBECONFIG="+kubeconfig)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("exporter rbac: %v\n%s", err, err.(*exec.ExitError).Stderr)
	}
	return decode(t, string(out))
}

// rightsIn returns the rights that roles and their bindings grant: "list pods", in one namespace "list pods in shop", of one object
// "get namespaces kube-system".
func rightsIn(t *testing.T, objects []*unstructured.Unstructured) map[string]bool {
	t.Helper()
	rights := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
		for _, rule := range role.Rules {
			for _, r := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))] {
						rights[right(verb, rule.APIGroups[0], r, o.GetNamespace(), name)] = true
					}
				}
			}
		}
	}
	return rights
}

func right(verb, group, resource, namespace, name string) string {
	text := verb + " " + strings.TrimSuffix(resource+"."+group, ".")
	if name != "" {
		text += " " + name
	}
	if namespace != "" {
		text += " in " + namespace
	}
	return text
}

// usage has the rights that an account's requests needed, by the audit log.
type usage struct {
	used      map[string]int // rights that the account's own bindings grant
	everybody map[string]int // rights that every account has
	forbidden []string
}

// ownBinding matches the reason of a request that a binding of the account allows, and not a binding of all accounts.
var ownBinding = regexp.MustCompile(`allowed by (RoleBinding|ClusterRoleBinding) "[^"]*" of (?:Role|ClusterRole) "[^"]*" to ` +
	"ServiceAccount ")

// exactSize matches a request for the size of a collection at a past revision.
var exactSize = regexp.MustCompile(`[?]limit=1&resourceVersion=\d+&resourceVersionMatch=Exact$`)

// used returns the account's usage. A right to one object counts as such only if it is granted.
func (a *audited) used(t *testing.T, user string, granted map[string]bool) usage {
	t.Helper()
	u := usage{used: map[string]int{}, everybody: map[string]int{}}
	file, err := os.Open(a.log)
	must(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ObjectRef        struct{ APIGroup, Resource, Namespace, Name string }
			ResponseStatus   struct{ Code int }
			Annotations      map[string]string
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.User.Username != user {
			continue
		}
		o := e.ObjectRef
		own := ownBinding.FindStringSubmatch(e.Annotations["authorization.k8s.io/reason"])
		switch {
		case e.ResponseStatus.Code == http.StatusForbidden && o.Namespace == "" && exactSize.MatchString(e.RequestURI):
			continue // a recovery tries it, to save requests: docs/security.md
		case e.ResponseStatus.Code == http.StatusForbidden || e.Annotations["authorization.k8s.io/decision"] != "allow":
			u.forbidden = append(u.forbidden, fmt.Sprintf("%s %s: %d", e.Verb, e.RequestURI, e.ResponseStatus.Code))
			continue
		case own == nil || o.Resource == "": // or every account of a hardened cluster needs it
			path, _, _ := strings.Cut(e.RequestURI, "?")
			u.everybody[e.Verb+" "+path]++
			continue
		case own[1] == "ClusterRoleBinding":
			o.Namespace = ""
		}
		if named := right(e.Verb, o.APIGroup, o.Resource, o.Namespace, o.Name); granted[named] {
			u.used[named]++
		} else {
			u.used[right(e.Verb, o.APIGroup, o.Resource, o.Namespace, "")]++
		}
	}
	return u
}

// seldom are the rights that an exporter may not need. A recovery of several streams lists Leases. A single APIService is read only while
// the watch of them is not open.
var seldom = map[string]bool{
	right("list", "coordination.k8s.io", "leases", "", ""):        true,
	right("get", "apiregistration.k8s.io", "apiservices", "", ""): true,
}

// audit waits until all granted rights were used, and demands that no other right was needed.
func (a *audited) audit(t *testing.T, user string, granted map[string]bool) {
	t.Helper()
	var u usage
	var unused []string
	for clock := servers.StartClock(); !clock.Late(); time.Sleep(100 * time.Millisecond) {
		u, unused = a.used(t, user, granted), nil
		for r := range granted {
			if u.used[r] == 0 && !seldom[r] {
				unused = append(unused, r)
			}
		}
		if len(unused) == 0 {
			break
		}
	}
	for r := range u.used {
		if !granted[r] {
			t.Errorf("%s used, and not granted: %s", user, r)
		}
	}
	if len(unused) > 0 || len(u.forbidden) > 0 {
		t.Errorf("%s: granted and unused %q, forbidden %q", user, unused, u.forbidden)
	}
	t.Logf("%s: %d rights granted, %d used", user, len(granted), len(u.used))
	for _, r := range slices.Sorted(maps.Keys(granted)) {
		t.Logf("  %6d requests  %s", u.used[r], r)
	}
	for _, r := range slices.Sorted(maps.Keys(u.everybody)) {
		t.Logf("  %6d requests  %s (every account may)", u.everybody[r], r)
	}
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installCRD installs the custom resource PLURAL.example.com.
func installCRD(t *testing.T, client dynamic.Interface, plural, kind string) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}}}}
	if _, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

var laterProof = regexp.MustCompile(`"type":"proof".*"stream":"gizmos\.example\.com"`)

// grantLater creates a labelled ClusterRole, as the installer of a CRD does. Then it adds the rules to the aggregated one, in place
// of the control plane's controller, which does not run here.
func (a *audited) grantLater(t *testing.T, plural, aggregated string) {
	t.Helper()
	roles := a.admin.RbacV1().ClusterRoles()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{plural}, Verbs: []string{"list", "watch"}}}
	_, err := roles.Create(t.Context(), &rbacv1.ClusterRole{Rules: rules, ObjectMeta: metav1.ObjectMeta{Name: "exporter-reads-" + plural,
		Labels: map[string]string{"kubecdc/aggregate-to-exporter": "true"}}}, metav1.CreateOptions{})
	must(t, err)
	role, err := roles.Get(t.Context(), aggregated, metav1.GetOptions{})
	must(t, err)
	selector := metav1.FormatLabelSelector(&role.AggregationRule.ClusterRoleSelectors[0])
	found, err := roles.List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("the aggregated role selects %v, %v", found, err)
	}
	role.Rules = found.Items[0].Rules
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Patterns never match Secrets. Only their name grants them.
func TestPatternsGrantNoSecrets(t *testing.T) {
	kube := servers.Kube(t)
	for resources, want := range map[string]bool{"*": false, "*,secrets": true} {
		rights := rightsIn(t, exporterRBAC(t, kube.Kubeconfig, map[string]string{"KUBECDC_RESOURCES": resources}))
		if rights["list secrets"] != want || !rights["list pods"] || !rights["watch deployments.apps"] {
			t.Errorf("%s grants %q", resources, slices.Sorted(maps.Keys(rights)))
		}
	}
}

// createEach creates an object of this name in each collection, in namespace shop.
func (a *audited) createEach(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	for plural, kind := range map[string]string{"widgets": "Widget", "gadgets": "Gadget"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind,
			"metadata": map[string]any{"name": name}}}
		e2e.Await(t, plural+" to be served", func() (bool, error) {
			_, err := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}).Namespace("shop").
				Create(t.Context(), o, metav1.CreateOptions{})
			return err == nil, nil
		})
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := a.admin.CoreV1().ConfigMaps("shop").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestExactlyTheGrantedRightsAreUsed runs exporters with the rights that exporter rbac prints for their settings, through a gap and
// the removal of a resource. The API server's audit log shows that they use all granted rights, and need no other.
func TestExactlyTheGrantedRightsAreUsed(t *testing.T) {
	kube := startAudited(t)
	client := dynamic.NewForConfigOrDie(kube.Config)
	for _, ns := range []string{"cdc", "shop"} {
		restricted(t, kube.admin, ns)
	}
	installCRD(t, client, "widgets", "Widget")
	installCRD(t, client, "gadgets", "Gadget") // keeps the API group, when widgets are removed
	kube.createEach(t, client, "first")
	everywhere := newAuditedRun(t, kube, "everywhere", map[string]string{"KUBECDC_RESOURCES": "configmaps,*.example.com"}, "--aggregate")
	runs := []*auditedRun{everywhere, newAuditedRun(t, kube, "in-shop",
		map[string]string{"KUBECDC_RESOURCES": "configmaps,widgets.example.com,gadgets.example.com", "KUBECDC_NAMESPACES": "shop"})}
	each := func(what string, times int) {
		t.Helper()
		for _, r := range runs {
			e2e.Await(t, fmt.Sprintf("%d times %s of %s", times, what, r.name), func() (bool, error) {
				return strings.Count(r.exporter.Output(), what) >= times, nil
			})
		}
	}
	each(`"name":"first"`, 3)
	each(`"type":"proof"`, 3)
	for _, r := range runs {
		r.exporter.Kill()
	}
	kube.createEach(t, client, "missed")
	must(t, kube.RestartAPIServer(t.Context()))
	for _, r := range runs {
		r.start(t)
	}
	each(`"complete":true`, 3)
	must(t, client.Resource(crds).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
	each(`"type":"stream-end"`, 1)
	kube.grantLater(t, "gizmos", "everywhere-aggregated:cdc")
	for _, verb := range []string{"list", "watch"} {
		everywhere.granted[verb+" gizmos.example.com"] = true
	}
	installCRD(t, client, "gizmos", "Gizmo")
	e2e.Await(t, "a proof of a resource that was installed later", func() (bool, error) {
		return laterProof.MatchString(everywhere.exporter.Output()), nil
	})
	for _, r := range runs {
		r.exporter.Signal(syscall.SIGTERM)
		r.exporter.Wait(t)
		kube.audit(t, "system:serviceaccount:cdc:"+r.name, r.granted)
	}
}

// auditedRun is an exporter with its own account.
type auditedRun struct {
	name     string
	env      map[string]string
	granted  map[string]bool
	exporter *e2e.Exporter
}

func newAuditedRun(t *testing.T, kube *audited, name string, settings map[string]string, args ...string) *auditedRun {
	t.Helper()
	r := &auditedRun{name: name, env: map[string]string{"KUBECDC_SINK": "stdout",
		"KUBECDC_PROOF_INTERVAL": "1s", "KUBECDC_CLUSTER": name, "KUBECDC_LEASE_DURATION": "2s",
		"KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")}}
	maps.Copy(r.env, settings)
	objects := exporterRBAC(t, kube.Kubeconfig, r.env, append(args, "--name", name, "--namespace", "cdc")...)
	apply(t, kube.Config, objects)
	r.granted = rightsIn(t, objects)
	r.env["KUBECONFIG"] = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, kube.WriteKubeconfig(r.env["KUBECONFIG"], kube.Address, accountToken(t, kube.admin, "cdc", name)))
	r.start(t)
	return r
}

func (r *auditedRun) start(t *testing.T) {
	t.Helper()
	r.exporter = e2e.StartExporter(t, r.name, r.env)
	r.exporter.AwaitReady(t)
}

var must = require.NoError
