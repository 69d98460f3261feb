package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/internal/screen"
	"kubecdc/test/auditpolicy"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

const (
	controllers = "system:serviceaccount:kube-system:"
	kubelet     = "system:node:n1"
)

// incidentWorld is a cluster with users and components, and the namespace of an incident.
type incidentWorld struct {
	t       *testing.T
	kube    *servers.Kubernetes
	clients map[string]*kubernetes.Clientset
	changes atomic.Int64
}

func newIncidentWorld(t *testing.T, events string) *incidentWorld {
	w := &incidentWorld{t: t, clients: map[string]*kubernetes.Clientset{}}
	names := []string{"alice", "bob", "carol", "dave", "erin@example.com", kubelet}
	for _, name := range []string{"deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler", "generic-garbage-collector"} {
		names = append(names, controllers+name)
	}
	var users []servers.User
	for i, name := range names {
		users = append(users, servers.User{Name: name, Token: fmt.Sprint("token-", i), Groups: []string{"system:masters"}})
	}
	var err error
	w.kube, err = servers.StartKubernetes(t.Context(), servers.KubernetesOptions{Users: users,
		Audit: &servers.AuditOptions{Level: "Metadata", File: events}})
	must(t, err)
	t.Cleanup(func() { _ = w.kube.Stop() })
	must(t, auditpolicy.Create(t.Context(), w.kube.Config))
	for _, u := range users {
		config := rest.AnonymousClientConfig(w.kube.Config)
		config.BearerToken, config.QPS = u.Token, -1
		w.clients[u.Name] = kubernetes.NewForConfigOrDie(config)
	}
	return w
}

// did ends the test if a write has failed.
func (w *incidentWorld) did(_ any, err error) {
	w.t.Helper()
	w.changes.Add(1)
	if err != nil {
		w.t.Fatal(err)
	}
}

const shop = "shop"

func image(name, version string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "registry.example.com/shop/" + name + ":" + version}}}
}

func ownedBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: &yes}}
}

// deploy creates a Deployment with a ReplicaSet and Pods that run.
func (w *incidentWorld) deploy(name string, pods int) {
	ctx, labels, replicas := w.t.Context(), map[string]string{"app": name}, int32(pods)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: image(name, "1.0.0")}
	d, err := w.clients["dave"].AppsV1().Deployments(shop).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}},
		metav1.CreateOptions{FieldManager: "kubectl-create"})
	w.did(d, err)
	w.replicate(d, "1", pods)
	w.status(controllers+"deployment-controller", "deployments", name,
		fmt.Sprintf(`{"replicas":%d,"readyReplicas":%[1]d,"updatedReplicas":%[1]d}`, pods))
	for n := range pods {
		w.runs(fmt.Sprintf("%s-1-%d", name, n), "Running", 0, "")
	}
}

// replicate creates a Deployment's ReplicaSet and its Pods.
func (w *incidentWorld) replicate(d *appsv1.Deployment, version string, pods int) {
	ctx, replicas := w.t.Context(), int32(pods)
	r, err := w.clients[controllers+"deployment-controller"].AppsV1().ReplicaSets(shop).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name + "-" + version, Labels: d.Labels, OwnerReferences: ownedBy("Deployment", d.Name, d.UID)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}, metav1.CreateOptions{})
	w.did(r, err)
	for n := range pods {
		w.did(w.clients[controllers+"replicaset-controller"].CoreV1().Pods(shop).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", r.Name, n), Labels: d.Labels, OwnerReferences: ownedBy("ReplicaSet", r.Name, r.UID)},
			Spec:       d.Spec.Template.Spec}, metav1.CreateOptions{}))
	}
}

// status writes a status.
func (w *incidentWorld) status(user, resource, name, status string) {
	api := w.clients[user].AppsV1().RESTClient()
	if resource == "pods" {
		api = w.clients[user].CoreV1().RESTClient()
	}
	w.did(nil, api.Patch(types.MergePatchType).Namespace(shop).Resource(resource).Name(name).SubResource("status").
		Body([]byte(`{"status":`+status+`}`)).Do(w.t.Context()).Error())
}

// runs writes the status of a Pod, as the kubelet does.
func (w *incidentWorld) runs(pod, phase string, restarts int, waiting string) {
	state, ready := map[string]any{"running": map[string]any{"startedAt": metav1.Now()}}, waiting == ""
	if !ready {
		state = map[string]any{"waiting": map[string]any{"reason": waiting, "message": "back-off 10s restarting failed container"}}
	}
	condition := map[bool]string{true: "True", false: "False"}[ready]
	status, _ := json.Marshal(map[string]any{"phase": phase,
		"conditions": []any{map[string]any{"type": "Ready", "status": condition, "lastTransitionTime": metav1.Now()}},
		"containerStatuses": []any{map[string]any{"name": "c", "image": "i", "imageID": "", "ready": ready,
			"restartCount": restarts, "state": state}}})
	w.status(kubelet, "pods", pod, string(status))
}

// edit changes an object as a person does.
func (w *incidentWorld) edit(user, path, patch string) {
	manager := "kubectl-edit"
	if strings.HasPrefix(user, "system:") {
		manager = "kube-controller-manager"
	}
	w.did(nil, w.clients[user].RESTClient().Patch(types.StrategicMergePatchType).AbsPath(path).Param("fieldManager", manager).
		Body([]byte(patch)).Do(w.t.Context()).Error())
}

// remove deletes an object, as the garbage collector does for its owner.
func (w *incidentWorld) remove(user, path string) {
	w.did(nil, w.clients[user].RESTClient().Delete().AbsPath(path).Body([]byte(`{"gracePeriodSeconds":0}`)).Do(w.t.Context()).Error())
}

// fill makes 500 objects, in 20 Deployments and what else a namespace has.
func (w *incidentWorld) fill() {
	ctx := w.t.Context()
	w.did(w.clients["dave"].CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, metav1.CreateOptions{}))
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			w.deploy([]string{"cart", "web", "old", "batch"}[n%4]+[]string{"", "-a", "-b", "-c", "-d"}[n/4], 3)
		})
	}
	all.Go(func() {
		for n := range 400 {
			w.did(w.clients["dave"].CoreV1().ConfigMaps(shop).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("settings-", n)},
				Data: map[string]string{"config": "host: db\nport: 5432\n"}}, metav1.CreateOptions{FieldManager: "kubectl-create"}))
		}
	})
	all.Wait()
}

// noise is what a cluster does by itself: statuses of Pods and Deployments.
func (w *incidentWorld) noise(n int) {
	name := []string{"cart", "web", "old", "batch"}[n%4] + []string{"-a", "-b", "-c", "-d"}[n/4%4]
	if n%5 == 0 {
		w.status(controllers+"deployment-controller", "deployments", name, fmt.Sprintf(`{"observedGeneration":%d}`, n))
		return
	}
	w.runs(fmt.Sprintf("%s-1-%d", name, n%3), "Running", 0, "")
}

// happens is the incident: a bad rollout with a crash loop, an autoscaler, a changed setting, deletions.
func (w *incidentWorld) happens() {
	const deployments, pods = "/apis/apps/v1/namespaces/shop/deployments/", "/api/v1/namespaces/shop/pods/"
	w.edit("alice", deployments+"cart", `{"spec":{"template":{"spec":{"containers":[{"name":"cart","image":"registry.example.com/shop/cart:2.0.0-rc1"}]}}}}`)
	d, err := w.clients["dave"].AppsV1().Deployments(shop).Get(w.t.Context(), "cart", metav1.GetOptions{})
	must(w.t, err)
	w.replicate(d, "2", 2)
	w.remove(controllers+"replicaset-controller", pods+"cart-1-2")
	w.status(controllers+"deployment-controller", "deployments", "cart", `{"replicas":4,"readyReplicas":2,"updatedReplicas":2}`)
	for i := range 4 {
		for _, pod := range []string{"cart-2-0", "cart-2-1"} {
			w.runs(pod, "Running", i, "")
			w.runs(pod, "Running", i+1, "CrashLoopBackOff")
		}
	}
	w.edit("bob", "/api/v1/namespaces/shop/configmaps/settings-7", `{"data":{"config":"host: db2\nport: 5432\n"}}`)
	w.edit(controllers+"horizontal-pod-autoscaler", deployments+"web/scale", `{"spec":{"replicas":5}}`)
	w.remove("carol", pods+"cart-1-1")
	w.edit("dave", deployments+"web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"LOG_LEVEL","value":"debug"}]}]}}}}`)
	w.remove("erin@example.com", deployments+"old")
	w.remove(controllers+"generic-garbage-collector", "/apis/apps/v1/namespaces/shop/replicasets/old-1")
	for n := range 3 {
		w.remove(controllers+"generic-garbage-collector", fmt.Sprint(pods, "old-1-", n))
	}
}

// In an incident there are 500 objects and 10,000 changes, and 20 a second go on. Somebody asks what happened, what differs, what it was and how
// it is put back. Each answer is one screen.
func TestSlowAnIncidentIsFourQuestions(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events.log")
	w := newIncidentWorld(t, events)
	env := []string{"KUBECONFIG=" + w.kube.Kubeconfig, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0",
		"KUBECDC_AUDIT_FILES=" + events, "PAGER=cat"}
	w.fill()
	run := onTerminal(t, 80, env, "run")
	run.shows(t, `^✓ following \d+ resources, [\d,]+ objects`)
	var all sync.WaitGroup
	for writer := range 8 {
		all.Go(func() {
			for n := range 1200 {
				w.noise(8*n + writer)
			}
		})
	}
	all.Wait()
	ctx, stop := context.WithCancel(t.Context())
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			w.noise(n)
			time.Sleep(50 * time.Millisecond)
		}
	})
	defer all.Wait()
	defer stop()
	calm := w.changes.Load() + 200
	e2e.Await(t, "ten seconds of 20 changes", func() (bool, error) { return w.changes.Load() > calm, nil })
	before := time.Now().UTC().Truncate(time.Second)
	time.Sleep(time.Until(before.Add(2 * time.Second))) // moments are in seconds
	w.happens()
	w.edit("alice", "/apis/apps/v1/namespaces/shop/deployments/cart", `{"metadata":{"annotations":{"the":"end"}}}`)
	since := "--since " + before.Format(time.RFC3339)
	ago := func() string { return fmt.Sprintf("%.0fs", 1+time.Since(before).Seconds()) } // it may be moved to a certain second
	e2e.Await(t, "the log to be complete up to then", func() (bool, error) {
		s := onTerminal(t, 140, env, strings.Fields("diff -n shop --from "+ago())...)
		return s.wait(t) == 1, nil
	})
	e2e.Await(t, "the last change in the log, with its author", func() (bool, error) {
		s := onTerminal(t, 140, env, strings.Fields("history deploy/cart -n shop "+since)...)
		return s.wait(t) == 0 && strings.Contains(s.screen(), `"end"`) && strings.Count(s.screen(), "alice") == 2, nil
	})
	for _, c := range []incidentAsked{
		{"history -n shop " + since, 0, []string{
			`^\S+ ~ deploy/cart -n shop  by alice\b`, `cart:1.0.0"? → \S*2.0.0-rc1`, `2 now CrashLoopBackOff`,
			`^\S+ … deploy/cart -n shop .*ready 3/3 → 2/3`,
			`~ cm/settings-7 -n shop  by bob\b`, `^ +- host: db$`, `~ deploy/web -n shop\s+by \S+horizontal-pod-autoscale\s*r\b`, `~ spec.replicas: 3 → 5$`,
			`- po/cart-1-1 -n shop  by carol\b`,
			`- deploy/old -n shop  by erin@example.com\b`}},
		{"diff -n shop --from " + ago(), 1, []string{
			`^~ deploy/cart -n shop\s+by alice`, `^- deploy/old -n shop  by erin`, `^only the status of \d+ other objects differs: --status shows it\b`}},
		{"history deploy/cart -n shop " + since, 0, []string{`2.0.0-rc1"?$`, ` 2 po of deploy/cart .*CrashLoopBackOff`}},
		{"restore deploy/cart -n shop --at " + ago(), 0, []string{`^  exporter restore .* kubectl replace -f -$`}},
		{"history -n shop --by bob " + since, 0, []string{`~ cm/settings-7 -n shop  by bob\b`}},
	} {
		for _, columns := range []uint16{80, 140} {
			w.asks(env, columns, c)
		}
	}
	t.Logf("%d changes were made", w.changes.Load())
}

// incidentAsked is a question, and what a terminal shows.
type incidentAsked struct {
	line  string
	code  int
	wants []string
}

// asks asks, and wants an answer of one screen.
func (w *incidentWorld) asks(env []string, columns uint16, c incidentAsked) {
	began := time.Now()
	s := onTerminal(w.t, columns, env, strings.Fields(c.line)...)
	code, took := s.wait(w.t), time.Since(began)
	shown := s.screen()
	w.t.Logf("exporter %s: %d columns, %d lines, %.1f s\n%s", c.line, columns, strings.Count(shown, "\n"), took.Seconds(), shown)
	for _, want := range c.wants {
		if code != c.code || !regexp.MustCompile("(?m)"+want).MatchString(shown) {
			w.t.Errorf("exporter %s: exit code %d, want %d and %s", c.line, code, c.code, want)
		}
	}
	if lines := strings.Count(shown, "\n"); lines > 40 {
		w.t.Errorf("exporter %s: %d lines", c.line, lines)
	}
	for line := range strings.Lines(shown) {
		if width := screen.Width(strings.TrimSuffix(line, "\n")); width > int(columns) && !strings.HasPrefix(line, "  exporter ") { // copied
			w.t.Errorf("exporter %s shows %d columns in %d: %s", c.line, width, columns, line)
		}
	}
}
