package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kubecdc/test/servers"
)

// client-go's informers of each kind follow the log for three minutes (KUBECDC_TEST_INFORMERS: another time). Meanwhile their connections
// end, the API server restarts, the exporter dies, and etcd is compacted. After each round the informers have etcd's objects.
func TestSlowInformersHaveWhatEtcdHas(t *testing.T) {
	servers.Slow(t)
	lasts := 3 * time.Minute
	if text := os.Getenv("KUBECDC_TEST_INFORMERS"); text != "" {
		lasts = must[time.Duration](t)(time.ParseDuration(text))
	}
	p, g := newGenerated(t)
	var lists, watches atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" || r.URL.Query().Get("sendInitialEvents") == "true" {
			lists.Add(1)
		} else {
			watches.Add(1)
		}
		p.server.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	config := &rest.Config{Host: web.URL, QPS: 1000, Burst: 1000}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	stores := map[*served]cache.Store{}
	for _, resource := range g.kinds {
		stores[resource] = factory.ForResource(schema.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Plural}).Informer().GetStore()
	}
	factory.Start(t.Context().Done())
	rounds, changes, differ := 0, 0, ""
	defer func() {
		t.Logf("%d rounds, %d changes, %d informers, %d lists, %d watches%s", rounds, changes, len(stores), lists.Load(), watches.Load(), differ)
	}()
	for began := time.Now(); time.Since(began) < lasts; rounds++ {
		for range 3 {
			changes += g.disturb(web)
		}
		for resource, store := range stores {
			servers.Await(t, fmt.Sprintf("the informer of %s to have what etcd has, in round %d", resource.ID(), rounds), func() (bool, error) {
				got, want := stored(store), g.inEtcd(resource)
				differ = fmt.Sprintf("; the informer of %s has\n%v, and etcd\n%v", resource.ID(), got, want)
				return slices.Equal(got, want), nil
			})
			differ = ""
		}
	}
}

// disturb changes objects during a fault that a client does not notice. It returns the number of changes.
func (g *generator) disturb(web *httptest.Server) (changes int) {
	p := g.past
	write := func() {
		for range 1 + g.IntN(60) {
			g.change()
			changes++
		}
	}
	write()
	switch g.IntN(6) {
	case 0:
		ok(g.t, p.kube.RestartAPIServer(g.t.Context()))
	case 1:
		p.exporter.Kill()
		write()
		p.start()
	case 2:
		p.exporter.Kill()
		write()
		ok(g.t, p.kube.Compact(g.t.Context(), 0))
		ok(g.t, p.kube.RestartAPIServer(g.t.Context()))
		p.start()
	case 3:
		web.CloseClientConnections()
	}
	write()
	return changes
}

// inEtcd returns etcd's objects of a kind, in the form of stored.
func (g *generator) inEtcd(resource *served) (all []string) {
	prefix := keyOf(resource, "", "")
	found := must[*clientv3.GetResponse](g.t)(g.past.kube.Etcd().Get(g.t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	for _, o := range found.Kvs {
		key := strings.TrimPrefix(string(o.Key), prefix)
		if !resource.Namespaced {
			key = "/" + key
		}
		all = append(all, fmt.Sprint(key, "@", o.ModRevision))
	}
	slices.Sort(all)
	return all
}
