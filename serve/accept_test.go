package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kubecdc/internal/cells"
	"kubecdc/test/servers"
)

// sent is a request that reads.
type sent struct{ method, path, accept, agent string }

// received is the answer to it.
type received struct {
	code   int
	header http.Header
	body   []byte
}

// requester makes requests that read, as any client may form them.
type requester struct{ *rand.Rand }

func (r requester) pick(all ...string) string { return all[r.IntN(len(all))] }

// rarely returns a text once in a while, or none.
func (r requester) rarely(n int, all ...string) string {
	if r.IntN(n) > 0 {
		return ""
	}
	return r.pick(all...)
}

// accept returns an Accept header of one to three clauses. Protobuf is left out, since only the real server has it, and so is
// application/*, which is 406 there for built-in resources.
func (r requester) accept() string {
	if r.IntN(2) == 0 {
		return r.pick(asObjects, asTable, "application/yaml", "*/*")
	}
	var clauses []string
	for range 1 + r.IntN(3) {
		clauses = append(clauses, r.pick("application/json", "application/json", "application/json", "application/yaml", "*/*", "text/html", "application/xml", "none")+
			r.pick("", "", ";as=Table;v=v1;g=meta.k8s.io", ";as=Table", ";as=Table;v=v1;g=example.com", ";g=meta.k8s.io;v=v1", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
				";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
				";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", ";g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", ";as=None;v=v1;g=meta.k8s.io",
				";charset=utf-8", ";pretty=1", ";stream=watch", ";stream=other", ";sv=v1", ";sv=v2")+r.pick("", "", "", ";q=0.9", ";q=0.5", ";q=0.1", ";q=nonsense"))
	}
	return strings.Join(clauses, r.pick(",", ", "))
}

// path returns a path of discovery, of a collection or of an object, with slashes where none belong, and its query.
func (r requester) path() string {
	if r.IntN(4) == 0 {
		return r.pick("/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/example.com", "/apis/example.com/v1", "/version", "/apis/none", "/apis/apps/v0") +
			r.rarely(3, "/") + r.rarely(3, "?pretty=1", "?pretty", "?pretty=false")
	}
	group := r.pick("/api/v1", "/api/v1", "/apis/apps/v1", "/apis/example.com/v1")
	plural := map[string]string{"/apis/apps/v1": "deployments", "/apis/example.com/v1": "widgets"}[group]
	if plural == "" {
		plural = r.pick("configmaps", "configmaps", "pods", "nodes", "namespaces")
	}
	path, isWatch := group, r.IntN(8) == 0
	if isWatch {
		path += "/watch"
	}
	namespaced := plural != "nodes" && plural != "namespaces"
	if namespaced != (r.IntN(30) == 0) && r.IntN(2) == 0 {
		path += "/namespaces/" + r.pick("default", "default", "default", "none", "")
	}
	path += "/" + r.rarely(20, "/") + r.pick(plural, plural, plural, plural, plural, plural, plural, plural, "nothings")
	if r.IntN(3) == 0 {
		path += "/" + r.pick("c4", "c4", "default", "none", "namespaces")
		if !isWatch {
			path += r.rarely(3, "/status", "/scale", "/none")
		}
	}
	return path + r.rarely(5, "/", "//") + r.query(isWatch)
}

func (r requester) query(isWatch bool) string {
	v := url.Values{}
	maybe := func(name string, n int, all ...string) {
		if r.IntN(n) == 0 {
			v.Set(name, r.pick(all...))
		}
	}
	maybe("watch", 8, "1", "true", "0", "false")
	maybe("limit", 4, "1", "2", "3", "500", "-1", "0", "x")
	maybe("labelSelector", 6, "app=a", "app!=a", "none", "==")
	maybe("fieldSelector", 6, "metadata.name=c4", "metadata.name!=c4", "spec.none=x")
	maybe("pretty", 4, "1", "true", "0", "false", "", "x")
	maybe("resourceVersion", 10, "0", "")
	maybe("resourceVersionMatch", 20, "Exact", "NotOlderThan", "none")
	maybe("allowWatchBookmarks", 20, "true")
	maybe("sendInitialEvents", 20, "true", "false")
	maybe("continue", 20, "x", "")
	maybe("includeObject", 10, "None", "Object", "Metadata")
	maybe("exact", 20, "true")
	maybe("timeoutSeconds", 10, "0", "1", "-1", "x")
	if seconds := v.Get("timeoutSeconds"); isWatch || v.Has("watch") && (seconds == "" || seconds == "0") {
		v.Set("timeoutSeconds", "1")
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

func (r requester) request() sent {
	return sent{r.pick("GET", "GET", "GET", "GET", "GET", "GET", "HEAD"), r.path(), r.accept(), r.pick("x", "x", "curl/8.1", "Mozilla/5.0 (X11)", "Wget/1")}
}

// send sends a request to a server.
func send(t *testing.T, client *http.Client, server string, s sent) received {
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), s.method, server+s.path, nil))
	r.Header.Set("Accept", s.accept)
	r.Header.Set("User-Agent", s.agent)
	a := must[*http.Response](t)(client.Do(r))
	defer func() { _ = a.Body.Close() }()
	return received{a.StatusCode, a.Header, must[[]byte](t)(io.ReadAll(a.Body))}
}

// form returns what must be equal in two servers' answers: all but what the page names.
func (a received) form() string {
	kind := strings.Join(slices.Concat(a.header["Content-Type"], a.header["Retry-After"], a.header["Allow"]), " ")
	if all := eventsOf(a.body); all != "" || a.code == http.StatusOK && bytes.HasPrefix(a.body, []byte(`{"type"`)) {
		return fmt.Sprintf("%d %s\n%s", a.code, kind, all)
	}
	if strings.HasPrefix(kind, "text/plain") { // the real server's error without a Status
		return fmt.Sprint(a.code)
	}
	body, syntax := bytes.TrimSuffix(a.body, []byte("\n")), "compact"
	var indented bytes.Buffer
	switch {
	case len(body) == 0:
		return fmt.Sprintf("%d %s\n", a.code, kind)
	case strings.HasPrefix(kind, "application/yaml"):
		body, syntax = slices.Clone(a.body), "YAML"
		if asJSON, err := yaml.YAMLToJSON(body); err == nil {
			if again, err := yaml.JSONToYAML(asJSON); err != nil || !bytes.Equal(again, a.body) {
				syntax = "other YAML"
			}
			body = asJSON
		}
	case bytes.Contains(body, []byte("\n")):
		if syntax = "lines"; json.Indent(&indented, body, "", "  ") == nil && indented.String() == string(body) {
			syntax = "pretty"
		}
	}
	return fmt.Sprintf("%d %s %s\n%s", a.code, kind, syntax, content(body))
}

var inSeconds = regexp.MustCompile(`"(\d+m(\d+s)?|\d+s)"`)

// eventsOf returns the events of a watch, without bookmarks.
func eventsOf(body []byte) string {
	var all []string
	for line := range bytes.Lines(body) {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if bytes.HasPrefix(line, []byte(`{"type"`)) && json.Unmarshal(line, &event) == nil && event.Type != "BOOKMARK" {
			all = append(all, event.Type+inSeconds.ReplaceAllString(normal(event.Object), "age"))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// readable returns the names in discovery of what can be read from a log: objects that can be watched, and parts of them.
func readable(body []byte) (names []string) {
	var resources func(v any)
	resources = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				resources(one)
			}
		case map[string]any:
			name, part := cells.TextOf(v["name"])+cells.TextOf(v["resource"]), cells.TextOf(v["subresource"])
			if _, inName, isPart := strings.Cut(name, "/"); isPart {
				part = inName
			}
			can, _ := v["verbs"].([]any)
			if slices.Contains(can, "watch") && !strings.HasPrefix(name, "secrets") || slices.Contains(can, "get") && slices.Contains(parts, part) {
				names = append(names, name+part)
			}
			for _, member := range []string{"resources", "items", "versions", "subresources"} {
				resources(v[member])
			}
		}
	}
	var v any
	_ = json.Unmarshal(body, &v)
	resources(v)
	slices.Sort(names)
	return slices.Compact(names)
}

// content returns the objects of an answer, or only the kind if it is discovery, in which the servers differ.
func content(body []byte) string {
	var o struct {
		Kind       string
		GitVersion any
	}
	_ = json.Unmarshal(body, &o)
	switch names := readable(body); {
	case o.Kind == "APIGroup":
		return string(body)
	case o.GitVersion != nil || strings.HasPrefix(o.Kind, "API"):
		return o.Kind + " " + strings.Join(names, " ")
	}
	return normal(body)
}

var ofNoNamespace = regexp.MustCompile(`/namespaces//[^/]+/|/v1/(watch/)?(configmaps|pods|deployments|widgets)/[^/]`)

var lastPage = regexp.MustCompile(`\n  "continue": "(a token)?"\n `)

// noResources are versions of which discovery has nothing that a log has: reviews, and a version that needs a conversion.
var noResources = regexp.MustCompile(`^/apis/(authentication\.k8s\.io|authorization\.k8s\.io|autoscaling)/v1$`)

// differs returns why two answers may differ, or how they differ.
func (s sent) differs(got, want received) (reason, difference string) {
	path, query, _ := strings.Cut(s.path, "?")
	if s.method == http.MethodHead {
		got.body, want.body = nil, nil
	}
	ours, theirs := got.form(), want.form()
	switch {
	case ours == theirs, strings.HasPrefix(ours, theirs) && !strings.Contains(theirs, "\n"):
		return "", ""
	case strings.HasSuffix(strings.TrimRight(path, "/"), "/watch") && got.code == 404 && want.code == 500:
		return "no resource to watch", ""
	case strings.Contains(query, "Selector=") && strings.Contains(query, "limit=") && lastPage.ReplaceAllString(ours, "") == lastPage.ReplaceAllString(theirs, ""):
		return "a full page of a selection, after which nothing may follow, has a token there", ""
	case ofNoNamespace.MatchString(path) && got.code == 404 && (want.code >= 400 || strings.Contains(path, "/watch/")):
		return "an object without its namespace", ""
	case got.code == 406 && (want.code == 200 && len(want.body) == 0 || want.code == 500) && strings.Contains(s.accept, "PartialObjectMetadataList"):
		return "a list of one object, or a watch of lists, ends without a word or with 500 there", ""
	case strings.Contains(query, "limit=") && strings.Contains(query, "resourceVersion=0") && want.code == 200 && got.code == 200:
		return "version 0 is read from a cache there, whatever the limit", ""
	case got.code == 404 && noResources.MatchString(path):
		return "the log has no resource of this group, or of this version", ""
	case strings.HasPrefix(path, "/openapi/v3") && got.code == want.code:
		return "the list of schemas has only what the log has, and there is text/plain", ""
	case got.code == 404 && strings.Contains(path, "/secrets"):
		return "Secrets are not in this log", ""
	case strings.Contains(path, "/leases") && got.code == want.code:
		return "leases are renewed all the time", ""
	case strings.Contains(query, "timeoutSeconds=-1") && got.code == want.code:
		return "a watch whose time is over sends what it happens to have", ""
	}
	return "", fmt.Sprintf("%d, want %d:\n%s", got.code, want.code, differ(ours, theirs))
}

// Each answer is the real server's, whatever a client accepts and however it forms its request. KUBECDC_TEST_SEED is another seed.
func (p *past) forms(t *testing.T) {
	p.logged(t)
	p.awaitAll(t)
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KUBECDC_TEST_SEED=%d", seed)
	r := requester{rand.New(rand.NewPCG(seed, 1))}
	p.sendAll(t, func(yield func(sent) bool) {
		for _, path := range []string{"/apis/apps/v1/namespaces/default/deployments/c4", "/apis/example.com/v1/namespaces/default/widgets/c4"} { // few random ones have these
			for _, part := range []string{"/scale", "/status"} {
				for _, form := range []string{"Table", "PartialObjectMetadata", "PartialObjectMetadataList"} {
					yield(sent{"GET", path + part, "application/json;as=" + form + ";v=v1;g=meta.k8s.io", "x"})
				}
			}
		}
		for range 1200 {
			yield(r.request())
		}
	})
}

// awaitAll waits until the log has the objects that the requests are about.
func (p *past) awaitAll(t *testing.T) {
	servers.Await(t, "the log of all", func() (bool, error) {
		for _, path := range []string{"/api/v1/pods", "/apis/apps/v1/deployments", "/apis/example.com/v1/widgets", "/api/v1/nodes", "/api/v1/configmaps", "/api/v1/services"} {
			if listed(p.real(path, asMetadata).body) != listed(p.ours(path, asMetadata).body) {
				return false, nil
			}
		}
		return true, nil
	})
}

// sendAll sends requests to both servers, and compares their answers.
func (p *past) sendAll(t *testing.T, requests iter.Seq[sent]) {
	web := httptest.NewServer(p.server)
	defer web.Close()
	client := &http.Client{Transport: must[http.RoundTripper](t)(rest.TransportFor(p.kube.Config))}
	all := make(chan sent)
	codes, reasons, wrong := map[int]int{}, map[string]int{}, 0
	var mu sync.Mutex
	var asking sync.WaitGroup
	for range 24 {
		asking.Go(func() {
			for s := range all {
				asked := s
				asked.accept = protobuf.ReplaceAllString(s.accept, "")
				want, got := send(t, client, p.kube.Config.Host, asked), send(t, http.DefaultClient, web.URL, s)
				reason, difference := s.differs(got, want)
				mu.Lock()
				codes[want.code]++
				if reasons[reason]++; difference != "" && wrong < 12 {
					wrong++
					t.Errorf("%s %s of %q by %s: %s", s.method, s.path, s.accept, s.agent, difference)
				}
				mu.Unlock()
			}
		})
	}
	for s := range requests {
		all <- s
	}
	close(all)
	asking.Wait()
	delete(reasons, "")
	t.Logf("by code %v; may differ: %v", codes, reasons)
}

// protobuf is the part of an Accept header that no log has. What a log sends instead is the API server's answer without it.
var protobuf = regexp.MustCompile(`application/vnd\.kubernetes\.protobuf[^,]*,?`)
