package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/exporter"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// past is a cluster and its log.
type past struct {
	t        *testing.T
	kube     *servers.Kubernetes
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	raw      rest.Interface
	binary   string
	settings []string
	log      *os.File
	exporter *exporter.Process
	file     string
	server   *Server
	steps    int
}

const cluster = "served"

// newPast starts an exporter of all resources, with more settings.
func newPast(t *testing.T, more ...string) *past {
	p := &past{t: t, kube: servers.Lend(t), binary: filepath.Join(t.TempDir(), "exporter"), file: filepath.Join(t.TempDir(), "log.db")}
	p.client, p.dynamic = kubernetes.NewForConfigOrDie(p.kube.Config), dynamic.NewForConfigOrDie(p.kube.Config)
	p.raw = p.client.Discovery().RESTClient()
	ok(t, exporter.Build(t.Context(), p.binary))
	p.log = must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "exporter.log")))
	p.settings = append([]string{"KUBECONFIG=" + p.kube.Kubeconfig, "KUBECDC_CLUSTER=" + cluster, "KUBECDC_RESOURCES=*", "KUBECDC_SINK=sqlite",
		"KUBECDC_CHECKPOINT=sqlite:" + p.file, "KUBECDC_WATERMARK_INTERVAL=2s"}, more...)
	t.Cleanup(func() {
		if text, _ := os.ReadFile(p.log.Name()); t.Failed() {
			t.Logf("exporter: %s", last(text, 3000))
		}
	})
	p.start()
	servers.Await(t, "a ready exporter", func() (bool, error) { return p.exporter.Ready(context.Background()) == nil, nil })
	reader := p.reader()
	t.Cleanup(func() { _ = reader.Close() })
	p.server = New(reader, nil, slog.New(slog.DiscardHandler))
	return p
}

// reader reads the log of the exporter's settings.
func (p *past) reader() sinks.ReadCloser {
	for _, setting := range p.settings {
		if url, isPostgres := strings.CutPrefix(setting, "KUBECDC_SINK_POSTGRES="); isPostgres {
			return must[sinks.ReadCloser](p.t)(postgres.OpenReader(p.t.Context(), postgres.Config{URL: url, Cluster: cluster}))
		}
	}
	return must[sinks.ReadCloser](p.t)(sqlite.NewReader(p.t.Context(), must[*sqlitefile.File](p.t)(sqlitefile.Share(p.t.Context(), p.file)), cluster))
}

// start starts an exporter, which continues the log.
func (p *past) start() {
	p.exporter = must[*exporter.Process](p.t)(exporter.Start(p.binary, p.settings, p.log, p.log))
	p.t.Cleanup(p.exporter.Kill)
}

func last(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

var ok = require.NoError

// answer is a server's answer to a GET.
type answer struct {
	code     int
	body     []byte
	warnings []string
}

func (p *past) real(path, accept string) answer {
	result := p.raw.Get().RequestURI(path).SetHeader("Accept", accept).MaxRetries(0).Do(context.Background())
	code := 0
	result.StatusCode(&code)
	raw, _ := result.Raw()
	return answer{code: code, body: raw}
}

func (p *past) ours(path, accept string) answer {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	p.server.ServeHTTP(w, r)
	return answer{w.Code, w.Body.Bytes(), w.Header().Values("Warning")}
}

const (
	asObjects  = "application/json"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	asMetadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
)

func TestALogIsServed(t *testing.T) {
	p := newPast(t)
	p.populate()
	for name, test := range map[string]func(*past, *testing.T){"answers": (*past).answers, "informers": (*past).informers, "watches": (*past).watches, "errors": (*past).errors,
		"rights": (*past).rights, "sockets": (*past).sockets, "forms": (*past).forms, "recorded": (*past).recorded, "semantics": (*past).semantics, "schemas": (*past).schemas, "lookalikes": (*past).lookalikes} {
		if !t.Run(name, func(t *testing.T) { test(p, t) }) {
			break
		}
	}
}

func TestSlowALogInPostgresIsServed(t *testing.T) {
	servers.Slow(t)
	p := newPast(t, "KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES="+servers.Database(t))
	p.populate()
	p.answers(t)
	p.watches(t)
	p.schemas(t)
}

// The schemas of built-in resources are the API server's, at the end and at each moment.
func (p *past) schemas(t *testing.T) {
	revision := must[int64](t)(p.kube.Revision(t.Context()))
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "apis/discovery.k8s.io/v1"} {
		want := p.real("/openapi/v3/"+path, asObjects)
		for _, moment := range []string{"", "/at/1m", fmt.Sprint("/at/", revision)} {
			servers.Await(t, "the schemas of "+path+moment, func() (bool, error) {
				got := p.ours(moment+"/openapi/v3/"+path, asObjects)
				return got.code == want.code && bytes.Equal(bytes.TrimSpace(got.body), bytes.TrimSpace(want.body)), nil
			})
		}
	}
}

// Each list and object at a revision is equal to the real server's answer at that time, in each form.
func (p *past) answers(t *testing.T) {
	type question struct{ path, accept string }
	var questions []question
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments", "/api/v1/services", "/api/v1/namespaces",
		"/apis/example.com/v1/widgets", "/api/v1/nodes", "/apis/apps/v1/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "/apis/apiregistration.k8s.io/v1/apiservices", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"} {
		for _, accept := range []string{asObjects, asTable, asMetadata} {
			questions = append(questions, question{path, accept})
		}
	}
	questions = append(questions, question{"/api/v1/configmaps?labelSelector=app%3Da", asObjects}, question{"/api/v1/pods?fieldSelector=status.phase%3DRunning", asObjects},
		question{"/api/v1/configmaps?fieldSelector=metadata.name%21%3Dc1", asObjects}, question{"/api/v1/namespaces/default/configmaps/c1", asObjects},
		question{"/api/v1/namespaces/default/configmaps/c1", asTable}, question{"/api/v1/namespaces/default/configmaps/none", asObjects},
		question{"/apis/example.com/v1/widgets?fieldSelector=spec.colour%3Dred", asObjects}, question{"/api/v1/pods?fieldSelector=spec.none%3Dx", asObjects})
	type recorded struct {
		version string
		question
		answer
	}
	var all []recorded
	for range 8 {
		p.change()
		version := fmt.Sprint(must[int64](t)(p.kube.Revision(t.Context())))
		for _, q := range questions {
			all = append(all, recorded{version, q, p.real(q.path, q.accept)})
		}
	}
	to := must[int64](t)(p.kube.Revision(t.Context()))
	servers.Await(t, "the log of all", func() (bool, error) {
		a := p.ours(fmt.Sprintf("/at/%d/api/v1/configmaps", to), asObjects)
		b := p.ours(fmt.Sprintf("/at/%d/apis/apiextensions.k8s.io/v1/customresourcedefinitions", to), asObjects)
		return a.code == 200 && b.code == 200 && len(a.warnings)+len(b.warnings) == 0, nil
	})
	wrong := 0
	for _, r := range all {
		ours := p.ours("/at/"+r.version+r.path, r.accept)
		if got, want := normal(ours.body), normal(r.body); ours.code != r.code || got != want {
			if wrong++; wrong < 6 {
				t.Errorf("%s at %s as %s: %d, the API server's %d: %v\n%s", r.path, r.version, r.accept, ours.code, r.code, ours.warnings, differ(got, want))
			}
		}
	}
	t.Logf("%d of %d answers differ", wrong, len(all))
}

// normal removes the differences that the page names: ages, the resourceVersion of a list, and messages of errors.
func normal(body []byte) string {
	var v map[string]any
	if json.Unmarshal(body, &v) != nil {
		return string(body)
	}
	if metadata, isObject := v["metadata"].(map[string]any); isObject && (strings.HasSuffix(fmt.Sprint(v["kind"]), "List") || v["rows"] != nil) {
		delete(metadata, "resourceVersion")
		if metadata["continue"] != nil && metadata["continue"] != "" {
			metadata["continue"] = "a token"
		}
	}
	if v["kind"] == "Status" {
		v = map[string]any{"kind": "Status", "code": v["code"], "reason": v["reason"]}
	}
	columns, _ := v["columnDefinitions"].([]any)
	rows, _ := v["rows"].([]any)
	for _, row := range rows {
		cells := row.(map[string]any)["cells"].([]any)
		for i, c := range columns {
			if name := c.(map[string]any)["name"].(string); slices.Contains([]string{"Age", "Last Seen", "First Seen", "Made"}, name) && cells[i] != "<unknown>" {
				cells[i] = "age"
			}
		}
	}
	text, _ := json.MarshalIndent(v, "", " ")
	return string(text)
}

// differ returns the parts of two texts where they begin to differ.
func differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-3)
			return fmt.Sprintf("line %d: ours\n%s\ntheirs\n%s", i, strings.Join(a[from:min(i+4, len(a))], "\n"), strings.Join(b[from:min(i+4, len(b))], "\n"))
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func (p *past) populate() {
	p.define(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","shortNames":["wd"]},"versions":[{"name":"v1","served":true,"storage":true,
		"selectableFields":[{"jsonPath":".spec.colour"}],
		"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size","labelSelectorPath":".status.colour"}},
		"additionalPrinterColumns":[{"name":"Colour","type":"string","jsonPath":".spec.colour"},{"name":"Size","type":"integer","jsonPath":".spec.size"},
			{"name":"Made","type":"date","jsonPath":".metadata.creationTimestamp"},{"name":"Parts","type":"string","jsonPath":".spec.parts[*].name","priority":1}],
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":{"type":"object","properties":{"size":{"type":"integer"},"colour":{"type":"string"}}},"spec":{"type":"object","properties":{"colour":{"type":"string"},"size":{"type":"integer"},
			"parts":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}}}}}}}]}}`)
}

// change makes the changes of a step.
func (p *past) change() {
	n := p.steps
	p.steps++
	ctx, name := p.t.Context(), fmt.Sprint("c", n)
	configs := p.client.CoreV1().ConfigMaps("default")
	must[*corev1.ConfigMap](p.t)(configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": string(rune('a' + n%2))}},
		Data: map[string]string{"k": name}}, metav1.CreateOptions{}))
	if n > 3 {
		ok(p.t, configs.Delete(ctx, fmt.Sprint("c", n-3), metav1.DeleteOptions{}))
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}, {Name: "log", Image: "log:2"}},
		InitContainers: []corev1.Container{{Name: "setup", Image: "setup:1"}}}
	zero := int64(0)
	pods := p.client.CoreV1().Pods("default")
	pod := must[*corev1.Pod](p.t)(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))
	pod.Status = podStatusOf(n)
	must[*corev1.Pod](p.t)(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	if n == 6 {
		ok(p.t, pods.Delete(ctx, "c2", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	}
	labels := map[string]string{"app": name}
	must[*appsv1.Deployment](p.t)(p.client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}, metav1.CreateOptions{}))
	must[*corev1.Service](p.t)(p.client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: []corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer"}[n%3], Selector: labels,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}}, metav1.CreateOptions{}))
	must[*corev1.Node](p.t)(p.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}},
		Spec: corev1.NodeSpec{Unschedulable: n%2 == 0}}, metav1.CreateOptions{}))
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"colour": []string{"red", "blue"}[n%2], "size": int64(n), "parts": []any{map[string]any{"name": "wheel"}, map[string]any{"name": "bell"}}}}}
	must[*unstructured.Unstructured](p.t)(p.dynamic.Resource(widgets).Namespace("default").Create(ctx, widget, metav1.CreateOptions{}))
}

// podStatusOf returns a state of a Pod's life.
func podStatusOf(n int) corev1.PodStatus {
	began := metav1.Unix(1.7e9, 0)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: began}}
	}
	status := func(phase corev1.PodPhase, setup corev1.ContainerState, states ...corev1.ContainerState) corev1.PodStatus {
		s := corev1.PodStatus{Phase: phase, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, InitContainerStatuses: []corev1.ContainerStatus{{Name: "setup", State: setup}}}
		for i, state := range states {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: []string{"app", "log"}[i], State: state, Ready: state.Running != nil, RestartCount: int32(i),
				LastTerminationState: ended(1, "Error")})
		}
		return s
	}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	return []corev1.PodStatus{
		status("Pending", running), status("Running", ended(0, "Completed"), running, running), status("Running", ended(0, "Completed"), running, waits),
		status("Running", ended(0, "Completed"), running, ended(0, "Completed")), status("Pending", ended(2, "")), status("Succeeded", ended(0, "Completed"), ended(0, "Completed"), ended(0, "Completed")),
		status("Failed", ended(0, "Completed"), ended(137, "OOMKilled"), ended(0, "Completed")), status("Pending", waits),
	}[n%8]
}

// A client's informer follows the log like the API server. At a moment it has the moment's objects, and no more changes.
func (p *past) informers(t *testing.T) {
	version := must[int64](t)(p.kube.Revision(t.Context()))
	then := p.names(p.dynamic)
	web := httptest.NewServer(p.server)
	t.Cleanup(web.Close)
	stores := map[string]cache.Store{}
	for name, path := range map[string]string{"live": "", "then": fmt.Sprintf("/at/%d", version)} {
		client := dynamic.NewForConfigOrDie(&rest.Config{Host: web.URL + path})
		servers.Await(t, "the log up to then", func() (bool, error) { return slices.Equal(p.names(client), then), nil })
		informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(configMaps).Informer()
		go informer.Run(t.Context().Done())
		servers.Await(t, "an informer in sync", func() (bool, error) { return informer.HasSynced(), nil })
		stores[name] = informer.GetStore()
	}
	for range 4 {
		p.change()
	}
	now := p.names(p.dynamic)
	servers.Await(t, "the informer of the log's end to have what the API server has", func() (bool, error) { return slices.Equal(stored(stores["live"]), now), nil })
	if got := stored(stores["then"]); !slices.Equal(got, then) {
		t.Errorf("the informer of a moment has %v, and there was %v", got, then)
	}
}

// A watch from a past version has the same events as the API server's. This holds even if many clients ask at once for a moment that
// is not cached.
func (p *past) watches(t *testing.T) {
	from := p.logged(t)
	path := fmt.Sprintf("/api/v1/configmaps?watch=1&timeoutSeconds=3&resourceVersion=%d", from)
	want := events(p.real(path, asObjects).body)
	got := make([][]string, 8)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = events(p.ours(path, asObjects).body) })
	}
	all.Wait()
	for _, one := range got {
		if len(want) == 0 || !slices.Equal(one, want) {
			t.Fatalf("the events of the log are %v, the API server's %v", one, want)
		}
	}
}

// logged makes some changes, and waits until the log has them. It returns the revision before them.
func (p *past) logged(t *testing.T) (from int64) {
	t.Helper()
	from = must[int64](t)(p.kube.Revision(t.Context()))
	for range 5 {
		p.change()
	}
	to := must[int64](t)(p.kube.Revision(t.Context()))
	servers.Await(t, "the log of all", func() (bool, error) {
		return len(p.ours(fmt.Sprintf("/at/%d/api/v1/configmaps", to), asObjects).warnings) == 0, nil
	})
	return from
}

// events returns the events of a watch: type, name and version.
func events(stream []byte) (all []string) {
	for line := range bytes.Lines(stream) {
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Name, ResourceVersion string }
			}
		}
		if json.Unmarshal(line, &e) == nil && e.Type != "BOOKMARK" {
			all = append(all, e.Type+" "+e.Object.Metadata.Name+" "+e.Object.Metadata.ResourceVersion)
		}
	}
	return all
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// names returns a server's ConfigMaps, with their versions.
func (p *past) names(client dynamic.Interface) (all []string) {
	list, err := client.Resource(configMaps).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, o := range list.Items {
		all = append(all, o.GetNamespace()+"/"+o.GetName()+"@"+o.GetResourceVersion())
	}
	slices.Sort(all)
	return all
}

func stored(s cache.Store) (all []string) {
	for _, o := range s.List() {
		u := o.(*unstructured.Unstructured)
		all = append(all, u.GetNamespace()+"/"+u.GetName()+"@"+u.GetResourceVersion())
	}
	slices.Sort(all)
	return all
}

// Writes are refused, and questions that a log can't answer get an error with the reason.
func (p *past) errors(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, httptest.NewRequest(method, "/api/v1/namespaces/default/configmaps", strings.NewReader("{}")))
		if w.Code != http.StatusMethodNotAllowed || !strings.Contains(w.Body.String(), "can only be read") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	for path, want := range map[string]int{"/at/5m/api/v1/namespaces": 410, "/at/soon/api/v1/pods": 400, "/api/v1/nothings": 404, "/at/99999999/api/v1/pods?resourceVersion=999999999": 504,
		"/api/v1/pods?labelSelector=%3D%3D": 400, "/api/v1/pods?continue=x": 400, "/at/now/api/v1/namespaces": 200, "/api/v1/namespaces/default/pods/c1/log": 404} {
		if got := p.ours(path, asObjects); got.code != want {
			t.Errorf("GET %s: %d, want %d: %s", path, got.code, want, last(got.body, 300))
		}
	}
}
