// Package deploy tests the manifests of this folder on a real API server.
package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// build renders a kustomization like kubectl apply -k.
func build(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // namespaces first
	rendered, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("build %s: %v", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range rendered.Resources() {
		text, err := r.MarshalJSON()
		must(t, err)
		o := &unstructured.Unstructured{}
		must(t, json.Unmarshal(text, o))
		objects = append(objects, o)
	}
	return objects
}

// apply applies objects like kubectl apply --server-side. The API server validates strictly.
func apply(t *testing.T, c *rest.Config, objects []*unstructured.Unstructured) {
	t.Helper()
	client, err := dynamic.NewForConfig(c)
	must(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clientset(t, c).Discovery()))
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		must(t, err)
		var target dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if o.GetNamespace() != "" {
			target = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		if _, err := target.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatalf("apply %s %s: %v", gvk.Kind, o.GetName(), err)
		}
	}
}

func clientset(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = 1000, 1000
	client, err := kubernetes.NewForConfig(c)
	must(t, err)
	return client
}

// accountToken returns a token like the one that kubelet puts into the Pod.
func accountToken(t *testing.T, client kubernetes.Interface, namespace, name string) string {
	t.Helper()
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authentication.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("token for %s/%s: %v", namespace, name, err)
	}
	return answer.Status.Token
}

// find returns the first object of a kind, decoded as a T.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) T {
	t.Helper()
	found := all[T](t, objects, kind)
	if len(found) == 0 {
		t.Fatalf("there is no %s", kind)
	}
	return found[0]
}

// all returns the objects of a kind, decoded as Ts.
func all[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) (found []T) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind {
			var one T
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &one))
			found = append(found, one)
		}
	}
	return found
}

// environment returns the environment of the exporter's container.
func environment(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	return environmentOf(t, find[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0], objects)
}

// environmentOf returns the environment of a container, as kubelet computes it.
func environmentOf(t *testing.T, container corev1.Container, objects []*unstructured.Unstructured) (env []string) {
	t.Helper()
	for _, from := range container.EnvFrom {
		if from.SecretRef != nil && slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Secret" && o.GetName() == from.SecretRef.Name
		}) {
			for k, v := range find[corev1.Secret](t, objects, "Secret").Data {
				env = append(env, k+"="+string(v))
			}
		}
		if from.ConfigMapRef == nil {
			continue
		}
		settings := find[corev1.ConfigMap](t, objects, "ConfigMap")
		if from.ConfigMapRef.Name != settings.Name {
			t.Fatalf("the Deployment reads ConfigMap %s, there is %s", from.ConfigMapRef.Name, settings.Name)
		}
		for k, v := range settings.Data {
			env = append(env, k+"="+v)
		}
	}
	for _, e := range container.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}

var kustomizations = []string{"base", "examples/kafka-postgres", "examples/replicas", "examples/serve", "examples/sqlite"}

// wantNoSecrets demands that no role grants Secrets, since no settings name them.
func wantNoSecrets(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, rule := range find[rbacv1.ClusterRole](t, objects, "ClusterRole").Rules {
		core := slices.Contains(rule.APIGroups, "") || slices.Contains(rule.APIGroups, "*")
		if core && (slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*")) {
			t.Errorf("the role grants %v on %v", rule.Verbs, rule.Resources)
		}
	}
}

// verbs are RBAC's verbs for resources, which the next test reviews.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

func TestTheAccountMayListAndWatchWhatIsExportedAndNoMore(t *testing.T) {
	kube := servers.Kube(t)
	objects := build(t, "base")
	apply(t, kube.Config, objects)
	token := accountToken(t, clientset(t, kube.Config), "kubecdc", "kubecdc")
	account := clientset(t, kube.UserConfig(kube.Address, token))

	expected := []string{
		"get customresourcedefinitions.apiextensions.k8s.io", "get apiservices.apiregistration.k8s.io",
		"list customresourcedefinitions.apiextensions.k8s.io", "watch customresourcedefinitions.apiextensions.k8s.io",
		"list apiservices.apiregistration.k8s.io", "watch apiservices.apiregistration.k8s.io",
		"list leases.coordination.k8s.io", // their metadata, where they are not exported
		// every user's: what may I do, and who am I (system:basic-user)
		"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectrulesreviews.authorization.k8s.io",
		"create selfsubjectreviews.authentication.k8s.io",
		// every service account's, since 1.37 (system:cluster-trust-bundle-discovery)
		"get clustertrustbundles.certificates.k8s.io", "list clustertrustbundles.certificates.k8s.io",
		"watch clustertrustbundles.certificates.k8s.io",
	}
	for _, env := range environment(t, objects) {
		if resources, ok := strings.CutPrefix(env, "KUBECDC_RESOURCES="); ok {
			for _, r := range strings.Split(resources, ",") {
				expected = append(expected, "list "+r, "watch "+r)
			}
		}
	}
	allowed := whatMayBeDone(t, account)
	slices.Sort(expected)
	slices.Sort(allowed)
	if !slices.Equal(expected, allowed) {
		t.Errorf("allowed:\n%s\nexpected:\n%s", strings.Join(allowed, "\n"), strings.Join(expected, "\n"))
	}
	for name, want := range map[string]bool{"kube-system": true, "default": false} {
		if got := may(t, account, authorization.ResourceAttributes{Verb: "get", Resource: "namespaces", Name: name}); got != want {
			t.Errorf("get namespace %s: %v", name, got)
		}
	}
}

// whatMayBeDone reviews each verb on each resource that the API server serves.
func whatMayBeDone(t *testing.T, client kubernetes.Interface) (allowed []string) {
	t.Helper()
	lists, err := client.Discovery().ServerPreferredResources()
	must(t, err)
	for _, list := range lists {
		group, _, ok := strings.Cut(list.GroupVersion, "/")
		if !ok {
			group = ""
		}
		for _, r := range list.APIResources {
			for _, verb := range verbs {
				if may(t, client, authorization.ResourceAttributes{Verb: verb, Group: group, Resource: r.Name}) {
					allowed = append(allowed, strings.TrimSuffix(fmt.Sprintf("%s %s.%s", verb, r.Name, group), "."))
				}
			}
		}
	}
	return allowed
}

func may(t *testing.T, client kubernetes.Interface, a authorization.ResourceAttributes) bool {
	t.Helper()
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(context.Background(),
		&authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Allowed
}
