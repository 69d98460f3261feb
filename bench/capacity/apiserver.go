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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
)

// apiServer serves a world: discovery, lists of any version, watches from any version.
type apiServer struct {
	*world
	collections []*collection
	mux         *http.ServeMux
	watches     atomic.Int64 // that were opened
	pages       atomic.Int64 // of lists
	bytes       atomic.Int64 // of both
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
	s.serve(resource{Resource: resourceOf("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")}, life{})
	s.serve(resource{Resource: resourceOf("apiregistration.k8s.io", "apiservices", "APIService")}, life{})
	s.discovery()
	return s, nil
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

func prefixOf(r *resource) string {
	if r.Group == "" {
		return "/api/v1/"
	}
	return "/apis/" + r.APIVersion() + "/"
}

func (s *apiServer) serve(r resource, l life) *collection {
	c := s.collection(r, l)
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			s.watches.Add(1)
			s.watch(c, w, r)
			return
		}
		s.pages.Add(1)
		s.list(c, w, r)
	}
	s.mux.HandleFunc(prefixOf(&r)+r.Plural, answer)
	s.mux.HandleFunc(prefixOf(&r)+"namespaces/{namespace}/"+r.Plural, answer)
	return c
}

// watch sends what came after a version, and bookmarks about once a minute.
func (s *apiServer) watch(c *collection, w http.ResponseWriter, r *http.Request) {
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	since, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(max(seconds, 60))*time.Second)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	wake := func() { s.mu.Lock(); c.changed.Broadcast(); s.mu.Unlock() }
	defer context.AfterFunc(ctx, wake)()
	marked := time.Now()
	defer time.AfterFunc(time.Minute, func() {
		for wake(); ctx.Err() == nil; wake() {
			select {
			case <-minute.C:
			case <-ctx.Done():
			}
		}
	}).Stop()
	next := 0
	for ctx.Err() == nil {
		_ = http.NewResponseController(w).Flush()
		buffer, upTo := s.events(ctx, c, since, &next)
		if len(buffer) == 0 && time.Since(marked) > 50*time.Second {
			buffer, marked = bookmark(c, upTo), time.Now()
		}
		n, err := w.Write(buffer)
		if s.bytes.Add(int64(n)); err != nil {
			return
		}
	}
}

// events waits once, and renders what the log has from index next on that is newer than a version. If that is nothing, the collection has
// been told up to a version.
func (s *apiServer) events(ctx context.Context, c *collection, since uint64, next *int) (buffer []byte, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *next == len(c.log) && ctx.Err() == nil {
		c.changed.Wait()
	}
	for ; *next < len(c.log) && len(buffer) < 64<<10; *next++ {
		if v := c.log[*next]; v.number > since {
			buffer = append(append(append(buffer, `{"type":"`...), c.life.types[v.state]...), `","object":`...)
			buffer = append(v.render(buffer), "}\n"...)
		}
	}
	return buffer, s.version()
}

func bookmark(c *collection, version uint64) []byte {
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null}}}`+"\n",
		c.Kind, c.APIVersion(), version)
}

// list answers a page of a collection as it is, or as it was at a version; of one object, if a field selector names it.
func (s *apiServer) list(c *collection, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	at, from := s.version(), c.first
	s.mu.Unlock()
	if q.Get("resourceVersionMatch") == "Exact" {
		at, _ = strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
		from = 0
	}
	if token := q.Get("continue"); token != "" {
		_, _ = fmt.Sscanf(token, "%d.%d", &at, &from)
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	name, named := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	items, next, left := s.page(c, at, from, limit, strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList"), name, named)
	more := ""
	if next > 0 {
		more = fmt.Sprintf(`,"continue":"%d.%d","remainingItemCount":%d`, at, next, left)
	}
	w.Header().Set("Content-Type", "application/json")
	n, _ := fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"%s},"items":[%s]}`+"\n", c.Kind, c.APIVersion(), at, more, items)
	s.bytes.Add(int64(n))
}

func (s *apiServer) page(c *collection, at uint64, from, limit int, metadata bool, name string, named bool) (items []byte, next, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all [][]byte
	for id := from; id < len(c.objects); id++ {
		v := c.objects[id].at(at)
		switch {
		case v == nil:
			continue
		case limit > 0 && len(all) == limit:
			if left++; next == 0 {
				next = id
			}
			continue
		}
		text := v.render(nil)
		if named && !bytes.Contains(text[:min(len(text), 300)], []byte(`"name":"`+name+`"`)) {
			continue
		}
		if metadata {
			text = fmt.Appendf(nil, `{"metadata":%s}`, metadataOf(text))
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte(",")), next, left
}

func resourceOf(group, plural, kind string) (r change.Resource) {
	r.Group, r.Version, r.Plural, r.Kind = group, "v1", plural, kind
	return r
}

func (s *apiServer) discovery() {
	groups := map[string]*metav1.APIResourceList{}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, c := range s.collections {
		if groups[c.Group] == nil {
			groups[c.Group] = &metav1.APIResourceList{GroupVersion: c.APIVersion()}
			if c.Group != "" {
				version := metav1.GroupVersionForDiscovery{GroupVersion: c.APIVersion(), Version: c.Version}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: c.Group, PreferredVersion: version,
					Versions: []metav1.GroupVersionForDiscovery{version}})
			}
		}
		groups[c.Group].APIResources = append(groups[c.Group].APIResources, metav1.APIResource{Name: c.Plural, Kind: c.Kind,
			Namespaced: c.Namespaced, Verbs: metav1.Verbs{"list", "watch", "get"}})
	}
	for _, resources := range groups {
		path := "/apis/" + resources.GroupVersion
		if resources.GroupVersion == "v1" {
			path = "/api/v1"
		}
		s.document(path, resources)
	}
	s.document("/api", metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	s.document("/apis", list)
	s.document("/api/v1/namespaces/kube-system", map[string]any{"kind": "Namespace", "apiVersion": "v1",
		"metadata": map[string]any{"name": "kube-system", "uid": "0b1f4a52-6f0e-4dd8-8f0b-000000000009", "resourceVersion": "1"}})
}

func (s *apiServer) document(path string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of strings
	}
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}
