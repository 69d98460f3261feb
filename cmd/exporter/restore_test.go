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

// restorable are objects of twelve types.
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

// Objects of twelve types are spoilt: members are added, changed and removed, or the object is deleted. The commands that restore prints put
// all of it back, and leave what the API server sets. What did not exist then is deleted.
func TestSpoiltObjectsArePutBack(t *testing.T) {
	kube := servers.Kube(t)
	namespace, kubectl := servers.UniqueName()[:9], servers.Kubectl(t)
	all := dynamic.NewForConfigOrDie(kube.Config)
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	_, err := all.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), made, metav1.CreateOptions{})
	must(t, err)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 4))
	var objects []*unstructured.Unstructured
	resources := map[string]bool{"deployments.apps": true}
	client := func(o *unstructured.Unstructured) dynamic.ResourceInterface {
		gvk := o.GroupVersionKind()
		plural := strings.TrimSuffix(strings.ToLower(gvk.Kind), "y") + map[bool]string{true: "ies", false: "s"}[strings.HasSuffix(gvk.Kind, "y")]
		resources[strings.TrimSuffix(plural+"."+gvk.Group, ".")] = true
		return all.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: plural}).Namespace(namespace)
	}
	for text := range strings.Lines(strings.TrimSpace(restorable)) {
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(text), &o.Object))
		_, err := client(o).Create(t.Context(), o, metav1.CreateOptions{FieldManager: "kubectl"})
		must(t, err)
		objects = append(objects, o)
	}
	env := []string{"KUBECONFIG=" + kube.Kubeconfig, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0",
		"KUBECDC_RESOURCES=" + strings.Join(slices.Sorted(maps.Keys(resources)), ",")}
	run := onTerminal(t, 200, env, "run")
	run.shows(t, `^✓ following \d+ resources`)
	version := func(o *unstructured.Unstructured) string {
		found, err := client(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		must(t, err)
		return found.GetResourceVersion()
	}
	bin := t.TempDir() // the printed commands find the programs there
	must(t, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	must(t, os.WriteFile(filepath.Join(bin, "exporter"), []byte("#!/bin/sh\nTEST_AS_EXPORTER=1 exec "+os.Args[0]+` "$@"`+"\n"), 0o700))
	shell := func(command string) (string, error) {
		c := exec.CommandContext(t.Context(), "sh", "-c", "set -e; "+command)
		c.Env = append(append(child.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TZ=UTC"), env...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	name := func(o *unstructured.Unstructured) string { return strings.ToLower(o.GetKind()) + "/" + o.GetName() }
	inLog := func(o *unstructured.Unstructured, version string) {
		e2e.Await(t, name(o)+" in the log", func() (bool, error) {
			out, _ := shell(fmt.Sprintf("exporter state %s -n %s --full -o 'jsonpath={.metadata.resourceVersion}' 2>/dev/null", name(o), namespace))
			return strings.TrimSpace(out) == version, nil
		})
	}
	want, versions := map[string]map[string]any{}, map[string]string{}
	for _, o := range objects {
		found, err := client(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		must(t, err)
		list, err := client(o).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		want[name(o)], versions[name(o)] = contents(found), list.GetResourceVersion()
	}
	for _, o := range objects {
		if random.IntN(3) == 0 {
			must(t, client(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
			e2e.Await(t, name(o)+" to be deleted", func() (bool, error) {
				found, err := client(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
				if err == nil && len(found.GetFinalizers()) > 0 { // nobody else removes them here
					found.SetFinalizers(nil)
					_, err = client(o).Update(t.Context(), found, metav1.UpdateOptions{})
				}
				return err != nil, nil
			})
			continue
		}
		found, err := client(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		must(t, err)
		spoil(found, random)
		changed, err := client(o).Update(t.Context(), found, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		must(t, err)
		inLog(o, changed.GetResourceVersion())
	}
	for _, o := range objects {
		out, err := shell(fmt.Sprintf("exporter restore %s -n %s --at %s", name(o), namespace, versions[name(o)]))
		if err != nil {
			t.Errorf("%s: %v\n%s", name(o), err, out)
			continue
		}
		command := regexp.MustCompile(`(?m)^  (exporter restore .*)$`).FindStringSubmatch(out)
		if command == nil {
			t.Errorf("no command for %s:\n%s", name(o), out)
			continue
		}
		if done, err := shell(command[1]); err != nil {
			t.Errorf("%s: %v\n%s\n%s", command[1], err, done, out)
			continue
		}
		found, err := client(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		must(t, err)
		if got := contents(found); !reflect.DeepEqual(got, want[name(o)]) {
			t.Errorf("%s is\n%v\nwas\n%v\n%s", name(o), got, want[name(o)], out)
		}
		inLog(o, version(o))
		if out, err := shell(fmt.Sprintf("exporter restore %s -n %s --at %s", name(o), namespace, versions[name(o)])); err != nil || !strings.Contains(out, "is as it was") {
			t.Errorf("a second time: %v\n%s", err, out)
		}
	}
	extra := objects[0].DeepCopy()
	extra.SetName("later")
	began := time.Now()
	_, err = client(extra).Create(context.Background(), extra, metav1.CreateOptions{})
	must(t, err)
	inLog(extra, version(extra))
	out, err := shell(fmt.Sprintf("exporter restore cm/later -n %s --incomplete --at %s", namespace, began.Add(-time.Second).UTC().Format(time.RFC3339Nano)))
	if err != nil || !strings.Contains(out, "kubectl delete configmaps/later -n "+namespace) {
		t.Errorf("%v\n%s", err, out)
	}
	must(t, run.Process.Signal(syscall.SIGINT))
	run.wait(t)
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
