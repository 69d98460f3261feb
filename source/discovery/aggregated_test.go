package discovery_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/test/servers"
)

// counted counts the reads of single APIServices.
type counted struct {
	http.RoundTripper
	reads *atomic.Int32
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/apiservices/") {
		c.reads.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// While discovery watches APIServices, nobody reads one that exists. An APIService that is made or deleted is seen at once.
func TestWhatIsAggregatedComesFromDiscoverysWatch(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	config, reads := rest.CopyConfig(k.Config), &atomic.Int32{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counted{rt, reads} })
	server := must[*discovery.Server](t)(discovery.Connect(config))
	aggregated := func(group string) bool {
		return must[bool](t)(discovery.Aggregated(t.Context(), server.Client(), change.Resource{Group: group, Version: "v1"}))
	}
	if aggregated("apps") || aggregated("other.example.com") || reads.Load() != 2 {
		t.Errorf("%d reads", reads.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go server.Follow(ctx, nil, time.Minute, slog.New(slog.DiscardHandler), func(discovery.Selection) {})
	known := func() (bool, error) {
		_, found := server.Client().Followed("apiservices", "v1.apps")
		return found, nil
	}
	servers.Await(t, "discovery's watch", known)
	services := dynamic.NewForConfigOrDie(k.Config).Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	must[*unstructured.Unstructured](t)(services.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.other.example.com"},
		"spec": map[string]any{"group": "other.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "other"}}}}, metav1.CreateOptions{}))
	servers.Await(t, "the APIService", func() (bool, error) { return aggregated("other.example.com"), nil })
	before := reads.Load()
	if aggregated("apps") || !aggregated("other.example.com") || reads.Load() > before {
		t.Errorf("wrong, or read: %d reads", reads.Load()-before)
	}
	mustDo(t, services.Delete(ctx, "v1.other.example.com", metav1.DeleteOptions{}))
	servers.Await(t, "its end", func() (bool, error) { return !aggregated("other.example.com"), nil })
	mustDo(t, k.RestartAPIServer(ctx))
	servers.Await(t, "discovery's watch after a restart", known)
	cancel()
	servers.Await(t, "the end of the watch", func() (bool, error) {
		_, found := server.Client().Followed("apiservices", "v1.apps")
		return !found, nil
	})
}
