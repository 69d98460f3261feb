package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// restorable are twelve objects of eleven types.
const restorable = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "1", b: "two\nlines\n"}}
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, selector: {app: a}, ports: [{name: http, port: 80}]}}
{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: a}, ports: [{port: 80}]}}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, annotations: {a: b}}}
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {app: a}}, spec: {replicas: 3, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: "a:1", env: [{name: A, value: "1"}]}, {name: side, image: "s:1"}]}}}}
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {serviceName: a, selector: {matchLabels: {app: s}}, template: {metadata: {labels: {app: s}}, spec: {containers: [{name: a, image: "a:1"}]}}}}
{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: "1 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1"}]}}}}}}
{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1"}]}}}}
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress]}}
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1, selector: {matchLabels: {app: a}}}}
`

// spoilt is a namespace whose objects are spoilt and put back.
type spoilt struct {
	t         *testing.T
	all       *dynamic.DynamicClient
	namespace string
	objects   []*unstructured.Unstructured
	resources map[string]bool
	env       []string
	want      map[string]map[string]any // contents by name
	versions  map[string]string         // what the lists that had these contents were at, by name
}

// Twelve objects of eleven types are spoilt: members are added, changed and removed, or the object is deleted. The commands that restore prints
// put all of it back, and leave what the API server sets. What did not exist then is deleted.
func TestSpoiltObjectsArePutBack(t *testing.T) {
	kube := servers.Kube(t)
	p := &spoilt{t: t, all: dynamic.NewForConfigOrDie(kube.Config), namespace: servers.UniqueName()[:9], resources: map[string]bool{"deployments.apps": true},
		want: map[string]map[string]any{}, versions: map[string]string{}}
	p.make()
	p.install(kube)
	run := onTerminal(t, 200, p.env, "run")
	run.shows(t, `^✓ following \d+ resources`)
	for _, o := range p.objects {
		list, err := p.client(o).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		p.want[name(o)], p.versions[name(o)] = contents(p.get(o)), list.GetResourceVersion()
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 4))
	for _, o := range p.objects {
		if random.IntN(3) == 0 {
			p.delete(o)
			continue
		}
		p.edit(o, random)
	}
	for _, o := range p.objects {
		p.putBack(o)
	}
	extra := p.objects[0].DeepCopy()
	extra.SetName("later")
	began := time.Now()
	_, err := p.client(extra).Create(context.Background(), extra, metav1.CreateOptions{})
	must(t, err)
	p.inLog(extra, p.get(extra).GetResourceVersion())
	out, err := p.shell(fmt.Sprintf("exporter restore cm/later -n %s --incomplete --at %s", p.namespace, began.Add(-time.Second).UTC().Format(time.RFC3339Nano)))
	if err != nil || !strings.Contains(out, "kubectl delete configmaps/later -n "+p.namespace) {
		t.Errorf("%v\n%s", err, out)
	}
	must(t, run.Process.Signal(syscall.SIGINT))
	run.wait(t)
}

// A namespace is spoilt: objects are changed, deleted and created. restore --execute puts it back in one run, with the managers that fields
// had, and a second run finds nothing to do. What was created since goes only with --prune.
func TestASpoiltNamespaceIsPutBack(t *testing.T) {
	kube := servers.Kube(t)
	p := &spoilt{t: t, all: dynamic.NewForConfigOrDie(kube.Config), namespace: servers.UniqueName()[:9],
		resources: map[string]bool{"namespaces": true}, want: map[string]map[string]any{}, versions: map[string]string{}}
	p.make()
	p.addOwned()
	p.install(kube)
	run := onTerminal(t, 200, p.env, "run")
	run.shows(t, `^✓ following \d+ resources`)
	managers := map[string][]metav1.ManagedFieldsEntry{}
	for _, o := range p.objects {
		found := p.get(o)
		p.want[name(o)], managers[name(o)] = contents(found), found.GetManagedFields()
	}
	for _, o := range p.objects {
		p.inLog(o, p.get(o).GetResourceVersion())
	}
	checkpoint, err := p.shell("exporter checkpoints list --limit 1 | sed -n 2p | cut -d' ' -f1")
	must(t, err)
	checkpoint = strings.TrimSpace(checkpoint)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 4))
	for i, o := range p.objects {
		if i == 0 || name(o) != "configmap/owned" && random.IntN(3) == 0 {
			p.delete(o)
			continue
		}
		p.edit(o, random)
	}
	extra := p.objects[0].DeepCopy()
	extra.SetName("later")
	_, err = p.client(extra).Create(t.Context(), extra, metav1.CreateOptions{})
	must(t, err)
	p.inLog(extra, p.get(extra).GetResourceVersion())

	ask := "exporter restore -n " + p.namespace + " --at " + checkpoint
	preview, err := p.shell(ask)
	for _, line := range []string{"- configmaps/a -n " + p.namespace + "  deleted since", "+ configmaps/later -n " + p.namespace + "  created since"} {
		if err != nil || !strings.Contains(preview, line) {
			t.Fatalf("%v: no line %q in\n%s", err, line, preview)
		}
	}
	if out, err := p.shell(ask + " --execute </dev/null"); err == nil || !strings.Contains(out, "needs --yes") {
		t.Errorf("without a terminal: %v\n%s", err, out)
	}
	out, err := p.shell(ask + " --execute --yes")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.wantAll(managers, out)
	owned := p.get(p.objects[len(p.objects)-1]).GetOwnerReferences()
	if len(owned) != 1 || owned[0].UID != p.get(p.objects[0]).GetUID() {
		t.Errorf("the owner of configmap/owned is %v", owned)
	}
	for _, o := range p.objects {
		p.inLog(o, p.get(o).GetResourceVersion())
	}
	if again, err := p.shell(ask + " --execute --yes"); err != nil || !strings.Contains(again, "nothing was written") {
		t.Errorf("a second run: %v\n%s", err, again)
	}
	p.get(extra) // without --prune it stays
	if out, err := p.shell(ask + " --execute --prune </dev/null"); err == nil || !strings.Contains(out, "needs --yes") {
		t.Errorf("--prune without a terminal: %v\n%s", err, out)
	}
	p.get(extra) // a dry run deletes nothing
	if pruned, err := p.shell(ask + " --execute --yes --prune"); err != nil || !strings.Contains(pruned, "configmaps/later -n "+p.namespace+"  deleted") {
		t.Errorf("--prune: %v\n%s", err, pruned)
	}
	must(t, run.Process.Signal(syscall.SIGINT))
	run.wait(t)
}

// addOwned adds an object that the first one owns.
func (p *spoilt) addOwned() {
	o := &unstructured.Unstructured{}
	must(p.t, yaml.Unmarshal(fmt.Appendf(nil, `{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, ownerReferences: [{apiVersion: v1,
kind: ConfigMap, name: a, uid: %s}]}, data: {a: "1", b: "2"}}`, p.get(p.objects[0]).GetUID()), &o.Object))
	_, err := p.client(o).Create(p.t.Context(), o, metav1.CreateOptions{FieldManager: "kubectl"})
	must(p.t, err)
	p.objects = append(p.objects, o)
}

func managerNames(entries []metav1.ManagedFieldsEntry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Manager+" "+string(e.Operation)+" "+e.FieldsV1.String())
	}
	slices.Sort(names)
	return names
}

// make creates the namespace and the objects.
// edit spoils an object as a user, and waits until the log has that.
func (p *spoilt) edit(o *unstructured.Unstructured, random *rand.Rand) {
	found := p.get(o)
	spoil(found, random)
	changed, err := p.client(o).Update(p.t.Context(), found, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	must(p.t, err)
	p.inLog(o, changed.GetResourceVersion())
}

// wantAll compares all objects with what they were, and the managers of their fields.
func (p *spoilt) wantAll(managers map[string][]metav1.ManagedFieldsEntry, out string) {
	for _, o := range p.objects {
		found := p.get(o)
		if got := contents(found); !reflect.DeepEqual(got, p.want[name(o)]) {
			p.t.Errorf("%s is\n%v\nwas\n%v\n%s", name(o), got, p.want[name(o)], out)
		}
		if got := found.GetManagedFields(); fmt.Sprint(managerNames(got)) != fmt.Sprint(managerNames(managers[name(o)])) {
			p.t.Errorf("%s has managers %v, had %v", name(o), managerNames(got), managerNames(managers[name(o)]))
		}
	}
}

func (p *spoilt) make() {
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": p.namespace}}}
	_, err := p.all.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(p.t.Context(), made, metav1.CreateOptions{})
	must(p.t, err)
	for text := range strings.Lines(strings.TrimSpace(restorable)) {
		o := &unstructured.Unstructured{}
		must(p.t, yaml.Unmarshal([]byte(text), &o.Object))
		_, err := p.client(o).Create(p.t.Context(), o, metav1.CreateOptions{FieldManager: "kubectl"})
		must(p.t, err)
		p.objects = append(p.objects, o)
	}
}

// install puts the programs where printed commands find them.
func (p *spoilt) install(kube *servers.Kubernetes) {
	bin := p.t.TempDir()
	must(p.t, os.Symlink(servers.Kubectl(p.t), filepath.Join(bin, "kubectl")))
	must(p.t, os.WriteFile(filepath.Join(bin, "exporter"), []byte("#!/bin/sh\nTEST_AS_EXPORTER=1 exec "+os.Args[0]+` "$@"`+"\n"), 0o700))
	p.env = []string{"KUBECONFIG=" + kube.Kubeconfig, "XDG_STATE_HOME=" + p.t.TempDir(), "HOME=" + p.t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0",
		"KUBECDC_RESOURCES=" + strings.Join(slices.Sorted(maps.Keys(p.resources)), ","), "PATH=" + bin + ":" + os.Getenv("PATH"), "TZ=UTC"}
}

func name(o *unstructured.Unstructured) string {
	return strings.ToLower(o.GetKind()) + "/" + o.GetName()
}

func (p *spoilt) client(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	plural := strings.TrimSuffix(strings.ToLower(gvk.Kind), "y") + map[bool]string{true: "ies", false: "s"}[strings.HasSuffix(gvk.Kind, "y")]
	p.resources[strings.TrimSuffix(plural+"."+gvk.Group, ".")] = true
	return p.all.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: plural}).Namespace(p.namespace)
}

func (p *spoilt) get(o *unstructured.Unstructured) *unstructured.Unstructured {
	p.t.Helper()
	found, err := p.client(o).Get(p.t.Context(), o.GetName(), metav1.GetOptions{})
	must(p.t, err)
	return found
}

func (p *spoilt) shell(command string) (string, error) {
	c := exec.CommandContext(p.t.Context(), "sh", "-c", "set -e; "+command)
	c.Env = append(child.Environ(), p.env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// inLog waits until the log has a version of an object, or for "" that it is gone.
func (p *spoilt) inLog(o *unstructured.Unstructured, version string) {
	p.t.Helper()
	e2e.Await(p.t, name(o)+" in the log", func() (bool, error) {
		out, _ := p.shell(fmt.Sprintf("exporter state %s -n %s --full -o 'jsonpath={.metadata.resourceVersion}' 2>/dev/null", name(o), p.namespace))
		return strings.TrimSpace(out) == version, nil
	})
}

func (p *spoilt) delete(o *unstructured.Unstructured) {
	p.t.Helper()
	must(p.t, p.client(o).Delete(p.t.Context(), o.GetName(), metav1.DeleteOptions{}))
	e2e.Await(p.t, name(o)+" to be deleted", func() (bool, error) {
		found, err := p.client(o).Get(p.t.Context(), o.GetName(), metav1.GetOptions{})
		if err == nil && len(found.GetFinalizers()) > 0 { // nobody else removes them here
			found.SetFinalizers(nil)
			_, err = p.client(o).Update(p.t.Context(), found, metav1.UpdateOptions{})
		}
		return err != nil, nil
	})
	p.inLog(o, "")
}

// putBack runs the command that restore prints. Then there is nothing left to put back.
func (p *spoilt) putBack(o *unstructured.Unstructured) {
	p.t.Helper()
	ask := fmt.Sprintf("exporter restore %s -n %s --at %s", name(o), p.namespace, p.versions[name(o)])
	out, err := p.shell(ask)
	if err != nil {
		p.t.Errorf("%s: %v\n%s", name(o), err, out)
		return
	}
	command := regexp.MustCompile(`(?m)^  (exporter restore .*)$`).FindStringSubmatch(out)
	if command == nil {
		p.t.Errorf("no command for %s:\n%s", name(o), out)
		return
	}
	if done, err := p.shell(command[1]); err != nil {
		p.t.Errorf("%s: %v\n%s\n%s", command[1], err, done, out)
		return
	}
	found := p.get(o)
	if got := contents(found); !reflect.DeepEqual(got, p.want[name(o)]) {
		p.t.Errorf("%s is\n%v\nwas\n%v\n%s", name(o), got, p.want[name(o)], out)
	}
	p.inLog(o, found.GetResourceVersion())
	if out, err := p.shell(ask); err != nil || !strings.Contains(out, "is as it was") {
		p.t.Errorf("a second time: %v\n%s", err, out)
	}
}

// contents are the parts of an object that people write.
func contents(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy().Object
	for _, member := range []string{"status", "secrets"} {
		delete(c, member)
	}
	annotations, _, _ := unstructured.NestedStringMap(c, "metadata", "annotations")
	labels, _, _ := unstructured.NestedStringMap(c, "metadata", "labels")
	c["metadata"] = map[string]any{"labels": fmt.Sprint(labels), "annotations": fmt.Sprint(annotations)}
	for _, path := range [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"},
		{"spec", "template", "metadata"}} {
		if value, _, _ := unstructured.NestedString(c, path...); value != "None" && (o.GetKind() == "Job" || o.GetKind() == "Service") {
			unstructured.RemoveNestedField(c, path...)
		}
	}
	text, _ := json.Marshal(c)
	var copied map[string]any
	_ = json.Unmarshal(regexp.MustCompile(`"nodePort":\d+`).ReplaceAll(text, []byte(`"nodePort":1`)), &copied)
	return copied
}

// spoil adds, changes and removes members.
func spoil(o *unstructured.Unstructured, random *rand.Rand) {
	o.SetAnnotations(map[string]string{"added": "yes"})
	if random.IntN(2) == 0 {
		o.SetLabels(map[string]string{"added": "yes"})
	}
	set := func(value any, path ...string) { _ = unstructured.SetNestedField(o.Object, value, path...) }
	switch o.GetKind() {
	case "ConfigMap":
		set(map[string]any{"b": "2", "c": "3"}, "data")
	case "Service":
		set(map[string]any{"app": "other", "more": "x"}, "spec", "selector")
	case "Deployment", "StatefulSet":
		set([]any{map[string]any{"name": "a", "image": "a:2", "env": []any{map[string]any{"name": "B", "value": "2"}}}}, "spec", "template", "spec", "containers")
		set(int64(7), "spec", "replicas")
	case "CronJob":
		set("2 * * * *", "spec", "schedule")
		set(true, "spec", "suspend")
	case "Job":
		set(int64(5), "spec", "parallelism")
	case "Role":
		o.Object["rules"] = []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}}}
	case "NetworkPolicy":
		set([]any{"Ingress", "Egress"}, "spec", "policyTypes")
	case "PodDisruptionBudget":
		set(int64(2), "spec", "minAvailable")
	}
}
