// Package synthetic is an API server that exists only to be read from, and costs little itself. It has the parts of the protocol that
// the exporter uses: discovery, paged lists, exact reads of one object, watches with bookmarks and 410s. It serves pods of a real size
// as fast as they are taken. It takes no writes: changes are requested at /bench/. It has no history, except of the changes that a watch
// was made to miss.
package synthetic

import (
	"encoding/json"
	"fmt"
	"net/http"
	gopath "path"
	"strconv"
	"strings"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group holds the resources of a server with more than one.
const Group = "bench.example.com"

// Options say what is served.
type Options struct {
	Objects   int // in each collection
	Rewrites  int // so many of a hundred updates that a watch sends change three tenths of the object, and not only times
	Resources int // 1: pods; more: so many resources of Group
	Bookmarks time.Duration
	OpenAPI   json.RawMessage // the document of api/v1; if empty, there is none
}

// Server is an http.Handler.
type Server struct {
	options     Options
	collections []*collection // the collections that have a name
	mux         *http.ServeMux
}

// New prepares a server.
func New(options Options) *Server {
	s := &Server{options: options, mux: http.NewServeMux()}
	if options.Resources <= 1 {
		s.serve("/api/v1/pods", newCollection("Pod", "v1", "pods", options.Objects))
	} else {
		for n := range options.Resources {
			plural := Plural(n)
			s.serve("/apis/"+Group+"/v1/"+plural, newCollection(kindOf(n), Group+"/v1", plural, options.Objects))
		}
	}
	s.serve("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", newCollection("CustomResourceDefinition", "apiextensions.k8s.io/v1", "", 0))
	s.serve("/apis/apiregistration.k8s.io/v1/apiservices", newCollection("APIService", "apiregistration.k8s.io/v1", "", 0))
	s.discovery()
	if len(options.OpenAPI) > 0 {
		s.document("/openapi/v3/api/v1", options.OpenAPI, nil)
	}
	s.mux.HandleFunc("/bench/send", s.each(func(c *collection, n int) uint64 { return c.send(n) }))
	s.mux.HandleFunc("/bench/miss", s.each(func(c *collection, n int) uint64 { c.miss(n); return c.send(0) }))
	s.mux.HandleFunc("/bench/touch", s.each(func(c *collection, n int) uint64 { c.touch(n); return c.send(0) }))
	s.mux.HandleFunc("/bench/expire", s.each(func(c *collection, _ int) uint64 { c.expire(); return c.send(0) }))
	return s
}

// Plural is the name of the nth resource of Group.
func Plural(n int) string { return fmt.Sprintf("things%03d", n) }

func kindOf(n int) string { return fmt.Sprintf("Thing%03d", n) }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) serve(path string, c *collection) {
	c.rewrites = s.options.Rewrites
	if c.plural != "" {
		s.collections = append(s.collections, c)
	}
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "": // a client of client-go goes on with pages
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`, http.StatusUnprocessableEntity)
		case q.Get("watch") != "":
			c.watch(w, r, s.options.Bookmarks)
		default:
			c.list(w, r)
		}
	})
	version, plural := gopath.Split(path)
	s.mux.HandleFunc(version+"namespaces/{namespace}/"+plural, c.list) // exact reads of one object
}

// each does something to every collection, or to the first so many, and answers with the last version.
func (s *Server) each(do func(c *collection, n int) uint64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		streams, err := strconv.Atoi(r.URL.Query().Get("streams"))
		if err != nil {
			streams = len(s.collections)
		}
		var version uint64
		for _, c := range s.collections[:streams] {
			version = do(c, n)
		}
		fmt.Fprint(w, version)
	}
}

// discovery serves the aggregated documents to whoever asks for them, and one for each version of a group to others.
func (s *Server) discovery() {
	verbs := metav1.Verbs{"list", "watch", "get"}
	pods := metav1.APIResourceList{GroupVersion: "v1"}
	things := metav1.APIResourceList{GroupVersion: Group + "/v1"}
	for n := range s.options.Resources {
		things.APIResources = append(things.APIResources, metav1.APIResource{Name: Plural(n), Kind: kindOf(n), Namespaced: true, Verbs: verbs})
	}
	if s.options.Resources <= 1 {
		things.APIResources = nil
		pods.APIResources = []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: verbs}}
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: Group + "/v1", Version: "v1"}
	s.document("/api", metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, aggregated("", pods))
	s.document("/apis", metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups: []metav1.APIGroup{{Name: Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}}},
		aggregated(Group, things))
	s.document("/api/v1", pods, nil)
	s.document("/apis/"+Group+"/v1", things, nil)
	s.document("/api/v1/namespaces/kube-system", map[string]any{"kind": "Namespace", "apiVersion": "v1",
		"metadata": map[string]any{"name": "kube-system", "uid": uuidOf(1), "resourceVersion": "1"}}, nil)
}

// aggregated returns the document of one group.
func aggregated(group string, list metav1.APIResourceList) *apidiscovery.APIGroupDiscoveryList {
	v := apidiscovery.APIVersionDiscovery{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	for _, r := range list.APIResources {
		v.Resources = append(v.Resources, apidiscovery.APIResourceDiscovery{Resource: r.Name, Verbs: r.Verbs,
			Scope: apidiscovery.ScopeNamespace, ResponseKind: &metav1.GroupVersionKind{Group: group, Version: "v1", Kind: r.Kind}})
	}
	return &apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items: []apidiscovery.APIGroupDiscovery{{ObjectMeta: metav1.ObjectMeta{Name: group}, Versions: []apidiscovery.APIVersionDiscovery{v}}}}
}

// document serves a document, and another one to whoever accepts the aggregated form, if there is one.
func (s *Server) document(path string, v any, aggregated *apidiscovery.APIGroupDiscoveryList) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		v := v
		if aggregated != nil && strings.Contains(r.Header.Get("Accept"), "v=v2;as=APIGroupDiscoveryList") {
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			v = aggregated
		}
		_ = json.NewEncoder(w).Encode(v)
	})
}
