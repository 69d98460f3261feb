package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
)

// apiServer serves a world: discovery, lists at any version, watches from any version.
type apiServer struct {
	*world
	mux            *http.ServeMux
	watches, pages atomic.Int64 // requests
}

func newAPIServer(c cluster) (*apiServer, error) {
	lives, err := readLives()
	if err != nil {
		return nil, err
	}
	s := &apiServer{world: &world{}, mux: http.NewServeMux()}
	for _, r := range c.resources() {
		s.collections = append(s.collections, s.serve(r, lives[r.Plural]))
	}
	s.discovery()
	for _, r := range []change.Resource{
		{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"},
		{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices", Kind: "APIService"},
	} {
		s.collections = append(s.collections, s.serve(resource{Resource: r}, life{}))
	}
	go func() {
		for range time.Tick(time.Minute) {
			s.wake() // for bookmarks
		}
	}()
	return s, nil
}

func (w *world) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.collections {
		c.changed.Broadcast()
	}
}

// listen serves on a free port, and writes a kubeconfig.
func (s *apiServer) listen(kubeconfig string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, s.mux) }()
	return os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],
clusters: [{name: c, cluster: {server: "http://%s"}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, listener.Addr()), 0o600)
}

func pathOf(apiVersion string) string {
	if apiVersion == "v1" {
		return "/api/v1"
	}
	return "/apis/" + apiVersion
}

func (s *apiServer) serve(r resource, l life) *collection {
	c := s.add(r, l)
	s.mux.HandleFunc(pathOf(r.APIVersion())+"/"+r.Plural, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			s.watches.Add(1)
			s.watch(c, w, r)
			return
		}
		s.pages.Add(1)
		s.list(c, w, r)
	})
	return c
}

// watch sends what came after a version, and a bookmark in each minute that has nothing else.
func (s *apiServer) watch(c *collection, w http.ResponseWriter, r *http.Request) {
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	since, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, s.wake)()
	marked, next := time.Now(), 0
	for ctx.Err() == nil {
		_ = http.NewResponseController(w).Flush()
		buffer, upTo := s.events(ctx, c, since, &next)
		if len(buffer) == 0 && time.Since(marked) > 50*time.Second {
			marked = time.Now()
			buffer = fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null}}}`+"\n",
				c.Kind, c.APIVersion(), upTo)
		}
		if _, err := w.Write(buffer); err != nil {
			return
		}
	}
}

// events waits once, and renders what the log has from index next on that is newer than a version. If that is nothing, the watch has all up to
// a version.
func (s *apiServer) events(ctx context.Context, c *collection, since uint64, next *int) (buffer []byte, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *next == len(c.log) && ctx.Err() == nil {
		c.changed.Wait()
	}
	for ; *next < len(c.log) && len(buffer) < 64<<10; *next++ {
		if v := c.log[*next]; v.number > since {
			buffer = fmt.Appendf(buffer, `{"type":%q,"object":`, v.kind())
			buffer = append(v.render(buffer), "}\n"...)
		}
	}
	return buffer, s.newest()
}

// list answers a page of a collection as it is, or as it was at a version.
func (s *apiServer) list(c *collection, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, newest, from := r.URL.Query(), s.newest(), 0
	if q.Get("resourceVersionMatch") == "Exact" {
		newest, _ = strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	}
	_, _ = fmt.Sscanf(q.Get("continue"), "%d.%d", &newest, &from)
	limit, _ := strconv.Atoi(q.Get("limit"))
	metadataOnly := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList")
	var items [][]byte
	more, left := "", 0
	for _, o := range c.objects[from:] {
		v := o.versionAt(newest)
		switch {
		case v == nil:
		case limit > 0 && len(items) == limit:
			if left++; left == 1 {
				from = o.id
			}
		case metadataOnly:
			items = append(items, fmt.Appendf(nil, `{"metadata":%s}`, metadataOf(v.render(nil))))
		default:
			items = append(items, v.render(nil))
		}
	}
	if left > 0 {
		more = fmt.Sprintf(`,"continue":"%d.%d","remainingItemCount":%d`, newest, from, left)
	}
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"%s},"items":[%s]}`+"\n", c.Kind, c.APIVersion(), newest, more,
		bytes.Join(items, []byte(",")))
}

// discovery serves the aggregated documents, and the identity of the cluster.
func (s *apiServer) discovery() {
	groups := map[string]*apidiscovery.APIGroupDiscovery{}
	for _, c := range s.collections {
		if groups[c.Group] == nil {
			groups[c.Group] = &apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: c.Group},
				Versions: []apidiscovery.APIVersionDiscovery{{Version: c.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}}}
		}
		scope := apidiscovery.ScopeCluster
		if c.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		v := &groups[c.Group].Versions[0]
		v.Resources = append(v.Resources, apidiscovery.APIResourceDiscovery{Resource: c.Plural, Verbs: metav1.Verbs{"list", "watch", "get"}, Scope: scope,
			ResponseKind: &metav1.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind}})
	}
	core := apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
	others := core
	for name, g := range groups {
		if name == "" {
			core.Items = append(core.Items, *g)
		} else {
			others.Items = append(others.Items, *g)
		}
	}
	const form = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	s.document("/api", form, core)
	s.document("/apis", form, others)
	s.document("/api/v1/namespaces/kube-system", "", map[string]any{"kind": "Namespace", "apiVersion": "v1",
		"metadata": map[string]any{"name": "kube-system", "uid": "0b1f4a52-6f0e-4dd8-8f0b-000000000009", "resourceVersion": "1"}})
}

func (s *apiServer) document(path, form string, v any) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json"+form)
		_ = json.NewEncoder(w).Encode(v)
	})
}
