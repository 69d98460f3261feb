package discovery_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/source/discovery"
	"kubecdc/test/servers"
)

// What a real API server serves is read as client-go's discovery reads it. A group whose own server is away is no error, and its
// resources are not taken for unknown.
func TestDiscoveryReadsWhatClientGoReads(t *testing.T) {
	config := servers.Kube(t).Config
	group := "away-" + servers.UniqueName() + ".example.com"
	registerAway(t, config, group)
	want := preferred(t, config)
	d := must[*discovery.Server](t)(discovery.Connect(config))
	patterns := must[[]discovery.Pattern](t)(discovery.ParsePatterns([]string{"*", "secrets", "things." + group}))
	var got []string
	servers.Await(t, "the server to notice that the group is away", func() (bool, error) {
		served := must[discovery.Served](t)(d.Served(t.Context()))
		selected, unknown := discovery.Select(patterns, served)
		got = nil
		for _, r := range selected {
			got = append(got, fmt.Sprintf("%s %s %s %v", r.ID(), r.Version, r.Kind, r.Namespaced))
		}
		return len(unknown) == 0, nil
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("read\n%v\nwant\n%v", got, want)
	}
}

// A server that does not know the aggregated form is named as such.
func TestAServerWithoutAggregatedDiscoveryIsRefused(t *testing.T) {
	config := rest.CopyConfig(servers.Kube(t).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutAggregation{next} })
	_, err := must[*discovery.Server](t)(discovery.Connect(config)).Served(t.Context())
	if err == nil || !strings.Contains(err.Error(), "needs Kubernetes 1.27 or later") {
		t.Errorf("error %v", err)
	}
}

// preferred is what client-go finds.
func preferred(t *testing.T, config *rest.Config) (all []string) {
	lists, err := must[*clientgo.DiscoveryClient](t)(clientgo.NewDiscoveryClientForConfig(config)).ServerPreferredResources()
	if err != nil && !clientgo.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv := must[schema.GroupVersion](t)(schema.ParseGroupVersion(list.GroupVersion))
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") || gv.Group == "events.k8s.io" { // the same as events
				continue
			}
			id := r.Name
			if gv.Group != "" {
				id += "." + gv.Group
			}
			all = append(all, fmt.Sprintf("%s %s %s %v", id, gv.Version, r.Kind, r.Namespaced))
		}
	}
	slices.Sort(all)
	return all
}

// withoutAggregation makes a server answer as one that does not know aggregated discovery.
type withoutAggregation struct{ http.RoundTripper }

func (w withoutAggregation) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api" || r.URL.Path == "/apis" {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/json")
	}
	return w.RoundTripper.RoundTrip(r)
}

// registerAway registers a group with a server that does not exist.
func registerAway(t *testing.T, config *rest.Config, group string) {
	t.Helper()
	services := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config)).
		Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	service := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1." + group},
		"spec": map[string]any{"group": group, "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"name": "away", "namespace": "default"}}}}
	must[*unstructured.Unstructured](t)(services.Create(t.Context(), service, metav1.CreateOptions{}))
	t.Cleanup(func() { _ = services.Delete(context.Background(), "v1."+group, metav1.DeleteOptions{}) })
}
