package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// client-go's informers of each kind follow the log for three minutes (KUBECDC_TEST_INFORMERS: another time). With
// KUBECDC_TEST_KUBE_RS=1 kube-rs' watchers follow it, too (testdata/kube-rs, which needs cargo). Meanwhile their connections end, the API
// server restarts, the exporter dies, and etcd is compacted. After each round all of them have etcd's objects.
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
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	config := &rest.Config{Host: web.URL, QPS: 1000, Burst: 1000}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	stores := map[*served]cache.Store{}
	for _, resource := range g.kinds {
		stores[resource] = factory.ForResource(schema.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Plural}).Informer().GetStore()
	}
	factory.Start(t.Context().Done())
	clients := map[string]func(*served) []string{"informer": func(r *served) []string { return stored(stores[r]) }}
	if os.Getenv("KUBECDC_TEST_KUBE_RS") != "" {
		clients["kube-rs"] = kubeRS(t, web.URL, g.kinds)
	}
	rounds, changes, differ := 0, 0, ""
	defer func() {
		t.Logf("%d rounds, %d changes, %d informers, %d lists, %d watches%s", rounds, changes, len(stores), lists.Load(), watches.Load(), differ)
	}()
	for began := time.Now(); time.Since(began) < lasts; rounds++ {
		for range 3 {
			changes += g.disturb(web)
		}
		for resource := range stores {
			for client, objects := range clients {
				servers.Await(t, fmt.Sprintf("the %s of %s to have what etcd has, in round %d", client, resource.ID(), rounds), func() (bool, error) {
					got, want := objects(resource), g.inEtcd(resource)
					differ = fmt.Sprintf("; the %s of %s has\n%v, and etcd\n%v", client, resource.ID(), got, want)
					if !slices.Equal(got, want) {
						differ += fmt.Sprintf(", and the server\n%.3000s", p.ours(pathOf(resource, ""), asMetadata).body)
					}
					return slices.Equal(got, want), nil
				})
				differ = ""
			}
		}
	}
}

// kubeRS builds and starts a program that follows resources with kube-rs, and returns what its stores have.
func kubeRS(t *testing.T, url string, resources []*served) func(*served) []string {
	target := must[string](t)(filepath.Abs("../bin/kube-rs"))
	build := exec.CommandContext(t.Context(), "cargo", "build", "--quiet", "--locked", "--release", "--target-dir", target, "--manifest-path",
		"testdata/kube-rs/Cargo.toml")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build testdata/kube-rs: %v\n%s", err, out)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["log"], config.Contexts["log"] = &clientcmdapi.Cluster{Server: url}, &clientcmdapi.Context{Cluster: "log"}
	config.CurrentContext = "log"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ok(t, clientcmd.WriteToFile(*config, file))
	names := map[*served]string{}
	c := exec.Command(filepath.Join(target, "release", "kube-rs-stores"))
	for _, r := range resources {
		names[r] = strings.Join([]string{r.Group, r.Version, r.Kind, r.Plural}, "/")
		c.Args = append(c.Args, names[r])
	}
	c.Env, c.Stderr = append(child.Environ(), "KUBECONFIG="+file), os.Stderr
	out := must[io.ReadCloser](t)(c.StdoutPipe())
	process := must[*child.Child](t)(child.Start(c))
	t.Cleanup(process.Kill)
	var last atomic.Pointer[map[string][]string]
	last.Store(&map[string][]string{})
	go func() {
		for d := json.NewDecoder(out); ; {
			stores := map[string][]string{}
			if d.Decode(&stores) != nil {
				return
			}
			for _, objects := range stores {
				slices.Sort(objects)
			}
			last.Store(&stores)
		}
	}()
	return func(r *served) []string { return (*last.Load())[names[r]] }
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
