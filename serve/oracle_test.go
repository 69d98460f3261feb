package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/query"
	"kubecdc/test/servers"
)

// exact serves the API server's state at a revision. It answers gets and lists by exact lists.
type exact struct {
	*past
	version string
}

func (e *exact) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := e.server.parse(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, accept := answer{}, r.Header.Get("Accept")
	if strings.Contains(accept, "protobuf") {
		accept = asObjects
	}
	switch {
	case q.wantsInitial(): // the client lists, then
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`, http.StatusUnprocessableEntity)
		return
	case q.Watch:
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // nothing happens at a revision
		return
	case q.plural == "":
		a = e.real(r.URL.RequestURI(), accept)
	default:
		a = e.objects(q, r.URL.Path, r.URL.Query(), accept)
	}
	w.Header().Set("Content-Type", typeOf(accept, a.body))
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body)
}

func typeOf(accept string, body []byte) string {
	if first, _, _ := strings.Cut(accept, ","); strings.Contains(first, "apidiscovery") && bytes.Contains(body, []byte("APIGroupDiscoveryList")) {
		return first
	}
	return "application/json"
}

// objects requests the objects at the revision.
func (e *exact) objects(q *request, path string, v url.Values, accept string) answer {
	if v.Get("continue") == "" {
		v.Set("resourceVersion", e.version)
		v.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	if q.name == "" {
		return e.real(path+"?"+v.Encode(), accept)
	}
	v.Set("fieldSelector", "metadata.name="+q.name)
	a := e.real(path[:strings.LastIndex(path, "/")]+"?"+v.Encode(), accept)
	if a.code != http.StatusOK {
		return a
	}
	return e.only(q, a)
}

// only makes a get's answer from a list's.
func (e *exact) only(q *request, a answer) answer {
	list := map[string]any{}
	ok(e.t, json.Unmarshal(a.body, &list))
	rows, table := list["rows"].([]any)
	items, _ := list["items"].([]any)
	switch {
	case len(rows)+len(items) == 0:
		status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
			Message: fmt.Sprintf("%s %q not found", schema.GroupResource{Group: q.group, Resource: q.plural}, q.name),
			Details: &metav1.StatusDetails{Name: q.name, Group: q.group, Kind: q.plural}}
		return answer{code: http.StatusNotFound, body: must[[]byte](e.t)(json.Marshal(status))}
	case table:
		return a
	}
	one := items[0].(map[string]any)
	one["kind"], one["apiVersion"] = strings.TrimSuffix(list["kind"].(string), "List"), list["apiVersion"]
	return answer{code: a.code, body: must[[]byte](e.t)(json.Marshal(one))}
}

// An exporter dies, and the API server restarts, while objects of each kind change. At random revisions kubectl prints the same from the
// log as from the API server.
func TestKubectlSeesThePast(t *testing.T) { kubectlSeesThePast(t, 400, 4, 8) }

// KUBECDC_TEST_REVISIONS is another number of revisions.
func TestSlowKubectlSeesThePast(t *testing.T) {
	servers.Slow(t)
	revisions := 100
	if text := os.Getenv("KUBECDC_TEST_REVISIONS"); text != "" {
		revisions = must[int](t)(strconv.Atoi(text))
	}
	kubectlSeesThePast(t, 4000, revisions, 600/revisions)
}

func kubectlSeesThePast(t *testing.T, changes, revisions, commands int) {
	kubectl := servers.Kubectl(t)
	p, g := newGenerated(t)
	var taken []int64
	for i := range changes {
		g.change()
		switch {
		case i == changes/4:
			p.exporter.Kill()
		case i == changes/2:
			p.start()
			ok(t, p.kube.RestartAPIServer(t.Context()))
		}
		if g.IntN(changes) < revisions {
			taken = append(taken, must[int64](t)(p.kube.Revision(t.Context())))
		}
	}
	for _, resource := range g.kinds { // each kind has some
		for len(g.live[resource.ID()]) < 3 {
			g.changeOf(resource)
		}
	}
	taken = append(taken, must[int64](t)(p.kube.Revision(t.Context())))
	for _, resource := range g.kinds {
		servers.Await(t, "the log of all "+resource.ID(), func() (bool, error) {
			a := p.ours(fmt.Sprintf("/at/%d%s", taken[len(taken)-1], pathOf(resource, "")), asObjects)
			return a.code == http.StatusOK && len(a.warnings) == 0, nil
		})
	}
	t.Logf("%d revisions", len(taken))
	for i, revision := range taken {
		e := &exact{p, fmt.Sprint(revision)}
		kinds := g.kinds
		if i < len(taken)-1 {
			kinds = []*served{g.kinds[g.IntN(len(g.kinds))], g.kinds[g.IntN(len(g.kinds))], g.kinds[g.IntN(len(g.kinds))]}
		}
		for _, resource := range kinds {
			g.compareLists(e, resource)
		}
		g.compareCommands(e, kubectl, commands)
		if g.wrong > 8 {
			return
		}
	}
	g.compareEvents(&exact{p, fmt.Sprint(taken[len(taken)-1])})
	g.compareDiscovery(&exact{p, fmt.Sprint(taken[len(taken)-1])}, kubectl)
}

// compareDiscovery compares the resources that can be listed and watched. Writes are refused.
func (g *generator) compareDiscovery(e *exact, kubectl string) {
	real, log := httptest.NewServer(e), httptest.NewServer(g.past.server)
	defer real.Close()
	defer log.Close()
	then := log.URL + "/at/" + e.version
	resources := []string{"api-resources", "--verbs=list,watch", "-o", "wide"}
	want, _ := g.run(kubectl, real.URL, resources)
	got, _ := g.run(kubectl, then, resources)
	if got, want := discovered(got), discovered(want); got != want {
		g.t.Errorf("kubectl api-resources: %s", differ(got, want))
	}
	file := filepath.Join(g.t.TempDir(), "object.yaml")
	ok(g.t, os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"default"}}`), 0o600))
	for _, args := range [][]string{{"create", "configmap", "new"}, {"create", "-f", file}, {"apply", "-f", file}, {"apply", "--server-side", "-f", file},
		{"diff", "-f", file}, {"replace", "-f", file}, {"delete", "namespace", "default", "--wait=false"}, {"label", "namespace", "default", "a=b"},
		{"annotate", "namespace", "default", "a=b"}, {"patch", "namespace", "default", "-p", "{}"}, {"create", "token", "default"}} {
		if text, code := g.run(kubectl, then, args); code == 0 || !strings.Contains(text, "can only be read") {
			g.t.Errorf("kubectl %s: exit code %d\n%s", strings.Join(args, " "), code, text)
		}
	}
	for args, want := range map[string]string{"auth can-i list pods": "yes", "auth can-i delete pods": "no", "auth can-i --list -n default": "[get list watch]",
		"auth whoami": "system:anonymous"} {
		if text, _ := g.run(kubectl, then, strings.Fields(args)); !strings.Contains(text, want) {
			g.t.Errorf("kubectl %s: %s", args, text)
		}
	}
	for _, args := range [][]string{{"explain", "pods.spec.containers"}, {"explain", "deployments", "--recursive"}, {"explain", "csinodes"}} {
		want, _ := g.run(kubectl, real.URL, args)
		if got, _ := g.run(kubectl, then, args); got != want {
			g.t.Errorf("kubectl %s: %s", strings.Join(args, " "), differ(got, want))
		}
	}
}

// discovered removes the verbs, since a log has only verbs that read.
func discovered(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(slices.DeleteFunc(strings.Fields(line), func(f string) bool { return strings.Contains(f, "watch") }), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func pathOf(resource *served, namespace string) string {
	path := "/api/v1"
	if resource.Group != "" {
		path = "/apis/" + resource.APIVersion()
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource.Plural
}

// compareLists compares the answers of the two servers.
func (g *generator) compareLists(e *exact, resource *served) {
	namespace := ""
	if resource.Namespaced && g.IntN(2) == 0 {
		namespace = "shop"
	}
	if names := append(resource.others, resource); resource.ID() == "events" {
		resource = []*served{resource, builtin()[eventIDs[1]]}[g.IntN(2)]
	} else {
		resource = names[g.IntN(len(names))]
	}
	path := pathOf(resource, namespace)
	for _, accept := range []string{asTable, asObjects, asMetadata} {
		theirs := e.objects(&request{}, path, url.Values{"labelSelector": {"gen"}}, accept)
		ours := g.past.ours("/at/"+e.version+path+"?labelSelector=gen", accept)
		if got, want := listed(ours.body), listed(theirs.body); got != want || ours.code != theirs.code || len(ours.warnings) > 0 {
			g.wrong++
			g.t.Errorf("%s at %s as %s: %d, the API server's %d: %v\n%s", path, e.version, accept, ours.code, theirs.code, ours.warnings, differ(got, want))
		}
	}
}

// compareEvents renames the Events of each group, and compares them with the API server's Events of the other group.
func (g *generator) compareEvents(e *exact) {
	both := [2]struct{ Items []json.RawMessage }{}
	for i, id := range eventIDs {
		ok(g.t, json.Unmarshal(e.objects(&request{}, pathOf(builtin()[id], ""), url.Values{}, asObjects).body, &both[i]))
	}
	for i := range both[0].Items {
		for to, id := range eventIDs {
			other := *builtin()[id]
			other.from = builtin()[eventIDs[1-to]]
			o := &query.Object{Body: both[1-to].Items[i]}
			other.rename(o)
			if got, want := normal(other.item(o.Body)), normal(both[to].Items[i]); got != want {
				g.t.Errorf("an event of %s by the names of %s: %s", eventIDs[1-to], id, differ(got, want))
			}
		}
	}
}

// listed returns a list without its version, in which the servers may differ.
func listed(body []byte) string {
	var v map[string]any
	if json.Unmarshal(body, &v) != nil {
		return string(body)
	}
	if metadata, isObject := v["metadata"].(map[string]any); isObject {
		delete(metadata, "resourceVersion")
	}
	text, _ := json.MarshalIndent(v, "", " ")
	return string(text)
}

// compareCommands runs kubectl against both.
func (g *generator) compareCommands(e *exact, kubectl string, n int) {
	real, log := httptest.NewServer(e), httptest.NewServer(g.past.server)
	defer real.Close()
	defer log.Close()
	for range n {
		args := g.command()
		want, wanted := g.run(kubectl, real.URL, args)
		got, code := g.run(kubectl, log.URL+"/at/"+e.version, args)
		if got != want || code != wanted {
			g.wrong++
			g.t.Errorf("kubectl %s at %s: exit code %d, with the API server %d\n%s", strings.Join(args, " "), e.version, code, wanted, differ(got, want))
		}
	}
}

func (g *generator) run(kubectl, server string, args []string) (text string, code int) {
	c := exec.CommandContext(g.t.Context(), kubectl, append([]string{"--server", server}, args...)...)
	c.Env = append(os.Environ(), "KUBECONFIG=/dev/null", "KUBECACHEDIR="+filepath.Join(g.t.TempDir(), "cache"))
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		g.t.Fatal(err)
	}
	text = strings.ReplaceAll(string(out), server, "SERVER")
	if args[0] == "describe" && strings.Contains(text, "Default Request") { // kubectl prints limits in the random order of a map
		text = strings.Join(slices.Sorted(strings.Lines(text)), "")
	}
	return text, c.ProcessState.ExitCode()
}

// command returns a kubectl command that reads.
func (g *generator) command() []string {
	resource := g.kinds[g.IntN(len(g.kinds))]
	where, name := []string{"-A"}, resource.Plural
	if !resource.Namespaced {
		where = nil
	} else if g.IntN(2) == 0 {
		where = []string{"-n", "shop"}
	}
	if names := append(resource.others, resource); resource.Group != "" {
		name += "." + names[g.IntN(len(names))].Version + "." + resource.Group
	} else if name == "events" && g.IntN(2) == 0 {
		name = "events.v1.events.k8s.io"
	}
	get := slices.Concat([]string{"get", name}, where)
	gen := append(get, "-l", g.pick("gen", "gen,app=a", "gen in (a,b)", "gen,app!=web-1").(string))
	one := []string{name + "/" + fmt.Sprint(g.pick("g", "g-x", "g.y"), g.IntN(6))}
	if resource.Namespaced {
		one = append(one, "-n", "shop")
	}
	field := resource.Fields[g.IntN(len(resource.Fields))]
	return [][]string{
		gen, append(gen, "-o", "wide"), append(gen, "--show-labels", "--show-kind"), append(gen, "--sort-by", ".metadata.name"), append(gen, "--chunk-size", "2"),
		append(get, "-o", "json"), append(get, "-o", "yaml", "--show-managed-fields"), append(get, "-o", "name"),
		append(get, "-o", "custom-columns=N:.metadata.name,V:.metadata.resourceVersion,L:.metadata.labels.gen,S:.spec"),
		append(get, "-o", "jsonpath={.items[*].metadata.name}", "--sort-by", ".metadata.creationTimestamp"),
		append(get, "-o", "json", "--field-selector", field+g.pick("=", "!=").(string)+g.pick("a", "g1", "Running", "True", "true", "0", "").(string)),
		append(gen, "--field-selector", "metadata.name=g1"),
		append([]string{"get"}, one...), slices.Concat([]string{"get"}, one, []string{"-o", "yaml"}), append([]string{"describe"}, one...),
		{"events", "-n", "shop"}, {"events", "-n", "shop", "--types", "Failed,Error"}, {"get", "events", "-n", "shop", "-o", "wide", "-l", "gen"},
		{"get", "pods,configmaps,gadgets", "-n", "shop", "-o", "name"}, {"get", "all", "-n", "shop", "-o", "name"},
		slices.Concat([]string{"wait", "--timeout=1s", "--for=jsonpath={.metadata.name}"}, one),
		slices.Concat([]string{"wait", "--timeout=1s", "--for=condition=Ready"}, one), {"explain", "gadgets.spec"}, {"explain", "planets.spec.parts"},
	}[g.IntN(24)]
}

// define makes a CRD, and waits until both servers have its resource.
func (p *past) define(crd string) {
	object := &unstructured.Unstructured{}
	ok(p.t, json.Unmarshal([]byte(crd), &object.Object))
	must[*unstructured.Unstructured](p.t)(p.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		Create(p.t.Context(), object, metav1.CreateOptions{}))
	path := pathOf(customResource([]byte(crd), nil), "")
	servers.Await(p.t, "the custom resource", func() (bool, error) {
		return p.real(path, asObjects).code == 200 && p.ours(path, asObjects).code == 200, nil
	})
}
