package discovery_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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

// What a real API server serves is read as client-go's discovery reads it: in the aggregated form, and in the one that
// servers before 1.27 have. A group whose own server is away is no error, and its resources are not taken for unknown.
func TestDiscoveryReadsWhatClientGoReads(t *testing.T) {
	config := servers.Kube(t).Config
	group := "away-" + servers.UniqueName() + ".example.com"
	registerAway(t, config, group)
	old := rest.CopyConfig(config)
	old.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutAggregation{next} })
	for name, config := range map[string]*rest.Config{"aggregated": config, "one by one": old} {
		t.Run(name, func(t *testing.T) {
			want := preferred(t, config)
			d := must[*discovery.Server](t)(discovery.Connect(config))
			patterns := must[[]discovery.Pattern](t)(discovery.ParsePatterns([]string{"*", "secrets", "things." + group}))
			var got []string
			var unknown []discovery.Pattern
			servers.Await(t, "the server to notice that the group is away", func() (bool, error) {
				served := must[discovery.Served](t)(d.Served(t.Context()))
				selected, notServed := discovery.Select(patterns, served)
				got, unknown = nil, notServed
				for _, r := range selected {
					got = append(got, fmt.Sprintf("%s %s %s %v", r.ID(), r.Version, r.Kind, r.Namespaced))
				}
				return len(unknown) == 0, nil
			})
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("read\n%v\nwant\n%v", got, want)
			}
			if len(unknown) != 0 {
				t.Errorf("%v is taken for unknown, while its group's server is away", unknown)
			}
		})
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
