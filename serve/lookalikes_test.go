package serve

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/test/servers"
)

// lookalikes are the plurals of built-in resources that the server treats in a way of their own. Custom resources of the same plurals are like
// all others, also with the fields by which the built-in ones are selected.
var lookalikes = []string{"flowschemas", "ingressclasses", "storageclasses", "limitranges", "namespaces", "pods", "jobs", "events", "daemonsets", "nodes"}

// lookalikeFields are selectable fields that are absent in some objects, or have another name or a default in a built-in resource.
var lookalikeFields = []string{"source", "reportingComponent", "status.replicas", "status.successful", "status.phase", "spec.unschedulable", "spec.hostNetwork"}

func lookalike(plural string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.like.example.com"},"spec":{"group":"like.example.com",
		"scope":"Namespaced","names":{"plural":%[1]q,"singular":"%[1]s-one","kind":"Like%[1]s"},"versions":[{"name":"v1","served":true,"storage":true,
		"additionalPrinterColumns":[{"name":"Created At","type":"string","jsonPath":".source"}],
		"selectableFields":[{"jsonPath":".source"},{"jsonPath":".reportingComponent"},{"jsonPath":".status.replicas"},{"jsonPath":".status.successful"},{"jsonPath":".status.phase"},
			{"jsonPath":".spec.unschedulable"},{"jsonPath":".spec.hostNetwork"}],
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"source":{"type":"string"},"reportingComponent":{"type":"string"},
			"spec":{"type":"object","properties":{"unschedulable":{"type":"boolean"},"hostNetwork":{"type":"boolean"}}},
			"status":{"type":"object","properties":{"replicas":{"type":"integer"},"succeeded":{"type":"integer"},"successful":{"type":"integer"},"phase":{"type":"string"}}}}}}}]}}`, plural)
}

// Custom resources whose plural or fields a built-in resource has are selected and printed as the API server does.
func (p *past) lookalikes(t *testing.T) {
	for _, plural := range lookalikes {
		p.define(lookalike(plural))
		path := "/apis/like.example.com/v1/" + plural
		compare := func(query, accept string) {
			if got, want := p.ours(path+query, accept), p.real(path+query, accept); got.code != want.code || normal(got.body) != normal(want.body) {
				t.Errorf("%s%s: %d, want %d\n%s", path, query, got.code, want.code, differ(normal(got.body), normal(want.body)))
			}
		}
		servers.Await(t, "the log of the definition", func() (bool, error) {
			return normal(p.ours(path, asTable).body) == normal(p.real(path, asTable).body), nil
		})
		resource := p.dynamic.Resource(schema.GroupVersionResource{Group: "like.example.com", Version: "v1", Resource: plural}).Namespace("default")
		for i, content := range []map[string]any{{}, {"source": "a", "spec": map[string]any{"unschedulable": false, "hostNetwork": true}},
			{"reportingComponent": "a", "status": map[string]any{"replicas": int64(0), "succeeded": int64(1), "phase": "a"}},
			{"spec": map[string]any{"unschedulable": true}, "status": map[string]any{"replicas": int64(2), "successful": int64(2)}}} {
			object := &unstructured.Unstructured{Object: content}
			object.SetAPIVersion("like.example.com/v1")
			object.SetKind("Like" + plural)
			object.SetName(fmt.Sprint("o", i))
			object.SetAnnotations(map[string]string{"ingressclass.kubernetes.io/is-default-class": "true", "storageclass.kubernetes.io/is-default-class": "true",
				"deprecated.daemonset.template.generation": "1"})
			must[*unstructured.Unstructured](t)(resource.Create(t.Context(), object, metav1.CreateOptions{}))
		}
		servers.Await(t, "the log of all", func() (bool, error) {
			return slices.Equal(names(p.ours(path, asObjects)), names(p.real(path, asObjects))), nil
		})
		for _, accept := range []string{asTable, asObjects, asMetadata} {
			compare("", accept)
		}
		for _, field := range lookalikeFields {
			for _, value := range []string{"a", "", "0", "1", "2", "false", "true"} {
				compare("?fieldSelector="+url.QueryEscape(field+"="+value), asObjects)
			}
		}
	}
}

func names(a answer) []string { return strings.Split(answered(a), ", ") }
