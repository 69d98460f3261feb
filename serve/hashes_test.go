package serve

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"kubecdc/internal/cells"
	"kubecdc/test/servers"
)

const redactedCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"keys.example.com"},"spec":{"group":"example.com",
	"scope":"Namespaced","names":{"plural":"keys","singular":"key","kind":"Key"},"versions":[{"name":"v1","served":true,"storage":true,
	"additionalPrinterColumns":[{"name":"Text","type":"string","jsonPath":".spec.text"},{"name":"Number","type":"integer","jsonPath":".spec.number"}],
	"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"text":{"type":"string"},"bytes":{"type":"string","format":"byte"},
		"number":{"type":"integer"},"on":{"type":"boolean"},"list":{"type":"array","items":{"type":"object","properties":{"at":{"type":"string","format":"date-time"}}}},
		"object":{"type":"object","additionalProperties":{"type":"string","format":"byte"}},"any":{"x-kubernetes-preserve-unknown-fields":true}}}}}}}]}}`

// The log has hashes in place of the values of Secrets, and of redacted fields of each type. Typed clients list, get and watch them, and each answer has the
// same object. What can't be a hash is left out, and a Warning says so.
func TestTypedClientsReadRedactedObjects(t *testing.T) {
	p := newPast(t, "KUBECDC_RESOURCES=*,secrets", "KUBECDC_REDACT=deployments.apps:spec.replicas,deployments.apps:spec.template.spec.containers.*.image,"+
		"deployments.apps:metadata.labels,keys.example.com:spec.text,keys.example.com:spec.bytes,keys.example.com:spec.number,keys.example.com:spec.on,"+
		"keys.example.com:spec.list.*.at,keys.example.com:spec.object.*,keys.example.com:spec.any")
	p.define(redactedCRD)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"a": []byte("x"), "b": {}}, Type: "example.com/own"}
	must[*corev1.Secret](t)(p.client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}))
	labels := map[string]string{"app": "web"}
	must[*appsv1.Deployment](t)(p.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}}}}, metav1.CreateOptions{}))
	key := &unstructured.Unstructured{}
	ok(t, json.Unmarshal([]byte(`{"apiVersion":"example.com/v1","kind":"Key","metadata":{"name":"k"},"spec":{"text":"t","bytes":"eA==","number":1,"on":true,
		"list":[{"at":"2026-01-01T00:00:00Z"},{}],"object":{"o":"eA=="},"any":{"x":1}}}`), &key.Object))
	keys := widgets
	keys.Resource = "keys"
	must[*unstructured.Unstructured](t)(p.dynamic.Resource(keys).Namespace("default").Create(t.Context(), key, metav1.CreateOptions{}))
	web := httptest.NewServer(p.server)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	config := &rest.Config{Host: web.URL}
	client := kubernetes.NewForConfigOrDie(config)
	servers.Await(t, "the log of all", func() (bool, error) {
		return p.ours("/api/v1/namespaces/default/secrets/s", asObjects).code == 200 && p.ours("/apis/apps/v1/namespaces/default/deployments/web", asObjects).code == 200 &&
			p.ours("/apis/example.com/v1/namespaces/default/keys/k", asObjects).code == 200, nil
	})
	list := must[*corev1.SecretList](t)(client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}))
	one := must[*corev1.Secret](t)(client.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{}))
	if len(list.Items) != 1 || fmt.Sprint(list.Items[0].Data) != fmt.Sprint(one.Data) || len(one.Data) != 2 || !strings.HasPrefix(string(one.Data["a"]), "hmac-sha256:") {
		t.Errorf("the list has %v, and the Secret is %v", list.Items, one)
	}
	web1 := must[*appsv1.DeploymentList](t)(client.AppsV1().Deployments("default").List(t.Context(), metav1.ListOptions{})).Items[0]
	if web1.Spec.Replicas != nil || web1.Labels != nil || !strings.HasPrefix(web1.Spec.Template.Spec.Containers[0].Image, "hmac-sha256:") {
		t.Errorf("the Deployment is %+v", web1)
	}
	watched := must[watch.Interface](t)(client.CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{}))
	if e := <-watched.ResultChan(); fmt.Sprint(e.Object.(*corev1.Secret).Data) != fmt.Sprint(one.Data) {
		t.Errorf("the watch has %v", e)
	}
	watched.Stop()
	factory := informers.NewSharedInformerFactory(client, 0)
	for what, informer := range map[string]interface{ HasSynced() bool }{"secrets": factory.Core().V1().Secrets().Informer(), "deployments": factory.Apps().V1().Deployments().Informer()} {
		factory.Start(t.Context().Done())
		servers.Await(t, "an informer of "+what+" in sync", func() (bool, error) { return informer.HasSynced(), nil })
	}
	must[*metav1.PartialObjectMetadataList](t)(metadata.NewForConfigOrDie(config).Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).List(t.Context(), metav1.ListOptions{}))
	p.sameEverywhere(t, "/api/v1/namespaces/default/secrets", "s", "data.* is redacted: its bytes are the text of a hash")
	p.sameEverywhere(t, "/apis/apps/v1/namespaces/default/deployments", "web", "metadata.labels is redacted, and its hash is no object: it is left out",
		"spec.replicas is redacted, and its hash is no integer: it is left out")
	p.sameEverywhere(t, "/apis/example.com/v1/namespaces/default/keys", "k", "spec.* is redacted: its bytes", "spec.object.* is redacted: its bytes", "spec.list.*.at is redacted, and its hash is no time: it is left out",
		"spec.number is redacted, and its hash is no integer: it is left out", "spec.on is redacted, and its hash is no boolean: it is left out")
	var got struct {
		Spec struct {
			Text, Any string
			Bytes     []byte
			Object    map[string][]byte
			List      []map[string]any
			Number    any
			Switch    any `json:"on"`
		}
	}
	ok(t, json.Unmarshal(p.ours("/apis/example.com/v1/namespaces/default/keys/k", asObjects).body, &got))
	for what, text := range map[string]string{"text": got.Spec.Text, "any": got.Spec.Any, "bytes": string(got.Spec.Bytes), "object": string(got.Spec.Object["o"])} {
		if !strings.HasPrefix(text, "hmac-sha256:") {
			t.Errorf("%s is %q", what, text)
		}
	}
	if got.Spec.Number != nil || got.Spec.Switch != nil || fmt.Sprint(got.Spec.List) != "[map[] map[]]" {
		t.Errorf("the key is %+v", got)
	}
}

// sameEverywhere demands that a list, a watch, and the tables of both have the same object as a get, and these warnings.
func (p *past) sameEverywhere(t *testing.T, path, name string, warns ...string) {
	want := cells.Decoded(p.ours(path+"/"+name, asObjects).body)
	for _, question := range []struct{ path, accept string }{{path + "/" + name, asObjects}, {path, asObjects}, {path + "?watch=1&timeoutSeconds=1", asObjects},
		{path + "?includeObject=Object", asTable}, {path + "/" + name + "?includeObject=Object", asTable}, {path + "?watch=1&timeoutSeconds=1&includeObject=Object", asTable}} {
		a := p.ours(question.path, question.accept)
		var lists struct {
			Items  []map[string]any
			Rows   []struct{ Object map[string]any }
			Spec   any
			Data   any
			Object struct {
				Rows []struct{ Object map[string]any }
			}
		}
		ok(t, json.Unmarshal(a.body, &lists))
		got := cells.Decoded(a.body)
		switch {
		case len(lists.Items) == 1:
			got = lists.Items[0]
		case len(lists.Rows) == 1:
			got = lists.Rows[0].Object
		case len(lists.Object.Rows) == 1:
			got = lists.Object.Rows[0].Object
		case got["object"] != nil:
			got = got["object"].(map[string]any)
		}
		for _, member := range []string{"data", "spec", "metadata"} {
			if cells.Compact(got[member]) != cells.Compact(want[member]) {
				t.Errorf("%s as %s has %s %s, want %s", question.path, question.accept, member, cells.Compact(got[member]), cells.Compact(want[member]))
			}
		}
		said := strings.Join(a.warnings, " ")
		for _, warning := range warns {
			if !strings.Contains(said, warning) {
				t.Errorf("%s as %s warns %q, want %s", question.path, question.accept, a.warnings, warning)
			}
		}
		if len(a.warnings) != len(warns) {
			t.Errorf("%s as %s warns %q", question.path, question.accept, a.warnings)
		}
	}
}
