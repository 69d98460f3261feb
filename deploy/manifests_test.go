package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"kubecdc/config"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// manifest is a set of objects that can be applied.
type manifest struct {
	name      string
	namespace string
	objects   []*unstructured.Unstructured
}

// manifests returns all manifests of this folder: the kustomizations, and the chart with each of its tested values.
func manifests(t *testing.T) (all []manifest) {
	t.Helper()
	for _, folder := range kustomizations {
		all = append(all, manifest{folder, "kubecdc", build(t, folder)})
	}
	all = append(all, manifest{"chart", "bare", render(t, "bare", "--set=fullnameOverride=bare")}) // without values
	for _, file := range chartValues(t) {
		name := "chart-" + strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		all = append(all, manifest{name, name, render(t, name, "--values="+file, "--set=fullnameOverride="+name)})
	}
	return all
}

// TestEveryManifestIsAdmittedAndRuns applies all manifests to namespaces that enforce the Pod Security Standard restricted, and
// creates the Deployments' Pods there. Then it runs the exporter with their settings and the token of their ServiceAccount.
func TestEveryManifestIsAdmittedAndRuns(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	installMonitors(t, kube)
	for _, m := range manifests(t) {
		t.Run(m.name, func(t *testing.T) {
			for _, ns := range []string{m.namespace, "shop", "blog"} {
				restricted(t, admin, ns)
			}
			apply(t, kube.Config, m.objects)
			wantAdmitted(t, admin, m.objects)
			env := environment(t, m.objects)
			_, warnings, err := config.Load(append(env, "KUBECDC_LISTEN=off", "XDG_STATE_HOME=/"), nil)
			warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.Contains(w, "on the network path") }) // without TLS
			if err != nil || len(warnings) > 0 {
				t.Errorf("settings: %v, %q", err, warnings)
			}
			if strings.Contains(strings.Join(env, "\n"), "KUBECDC_CLUSTER=") && m.name != "chart-all" {
				t.Errorf("every cluster that this is applied to would have one name: %q", env)
			}
			wantNoSecrets(t, m.objects)
			wantItRuns(t, kube, admin, m)
		})
	}
	monitor, err := os.ReadFile("examples/podmonitor/podmonitor.yaml")
	must(t, err)
	apply(t, kube.Config, decode(t, string(monitor)))
}

// restricted creates a namespace with the strictest Pod Security Standard.
func restricted(t *testing.T, admin *kubernetes.Clientset, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted"}}}
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// wantAdmitted creates the Deployments' Pods, like the Deployments' controller. With one field less a Pod is refused.
func wantAdmitted(t *testing.T, admin *kubernetes.Clientset, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, d := range all[appsv1.Deployment](t, objects, "Deployment") {
		create := func(template corev1.PodTemplateSpec) error {
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.GenerateName = d.Name + "-"
			_, err := admin.CoreV1().Pods(d.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		if err := create(d.Spec.Template); err != nil {
			t.Errorf("its Pod: %v", err)
		}
		lax := *d.Spec.Template.DeepCopy()
		lax.Spec.Containers[0].SecurityContext.Capabilities = nil
		if err := create(lax); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
			t.Errorf("namespace %s does not enforce a Pod Security Standard: %v", d.Namespace, err)
		}
	}
}

// wantItRuns runs the exporter with the manifest's settings and rights, to stdout and with an SQLite file.
func wantItRuns(t *testing.T, kube *servers.Kubernetes, admin *kubernetes.Clientset, m manifest) {
	t.Helper()
	spec := find[appsv1.Deployment](t, m.objects, "Deployment").Spec.Template.Spec
	if !*spec.AutomountServiceAccountToken {
		t.Fatal("the Pod has no token")
	}
	env := map[string]string{}
	for _, e := range environment(t, m.objects) {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	maps.Copy(env, map[string]string{"KUBECONFIG": filepath.Join(t.TempDir(), "kubeconfig"), "KUBECDC_SINK": "stdout",
		"KUBECDC_SINK_POSTGRES": "", "KUBECDC_KAFKA_BROKERS": "", "KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")})
	delete(env, "KUBECDC_LISTEN")
	token := accountToken(t, admin, m.namespace, spec.ServiceAccountName)
	must(t, kube.WriteKubeconfig(env["KUBECONFIG"], kube.Address, token))
	exporter := e2e.StartExporter(t, m.name, env)
	exporter.AwaitReady(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: servers.UniqueName()}, Spec: spec}
	if _, err := admin.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the record of a new Pod", func() (bool, error) {
		return strings.Contains(exporter.Output(), `"name":"`+pod.Name+`"`), nil
	})
	if log := exporter.Tail(1 << 20); strings.Contains(log, "forbidden") || strings.Contains(log, "by its CA alone") {
		t.Errorf("the account lacks a right:\n%s", log)
	}
}

// installMonitors installs the Prometheus operator's CRDs, from its Go module.
func installMonitors(t *testing.T, kube *servers.Kubernetes) {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "github.com/prometheus-operator/prometheus-operator@v0.85.0").Output()
	if err != nil {
		t.Fatalf("download the Prometheus operator's CRDs: %v", err)
	}
	var module struct{ Dir string }
	must(t, json.Unmarshal(out, &module))
	var crds []*unstructured.Unstructured
	kinds := []string{"servicemonitors", "podmonitors", "prometheusrules"}
	for _, kind := range kinds {
		text, err := os.ReadFile(filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml"))
		must(t, err)
		crds = append(crds, decode(t, string(text))...)
	}
	apply(t, kube.Config, crds)
	client := clientset(t, kube.Config).Discovery().RESTClient()
	for _, kind := range kinds {
		e2e.Await(t, "the "+kind+" to be served", func() (bool, error) {
			_, err := client.Get().AbsPath("/apis/monitoring.coreos.com/v1", kind).DoRaw(t.Context())
			return err == nil, nil
		})
	}
}

// chartFor renders the chart with the settings of a kustomization, or of a test.
func chartFor(t *testing.T, settings map[string]string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(settings)
	must(t, err)
	return render(t, "kubecdc", append(args, "--set-json=config="+string(text), "--set=existingSecret=kubecdc")...)
}

// The handwritten roles of the examples grant the rights that the chart grants for their settings.
func TestTheRolesOfTheExamplesMatchTheirSettings(t *testing.T) {
	for _, folder := range kustomizations {
		objects := build(t, folder)
		want := rightsIn(t, chartFor(t, find[corev1.ConfigMap](t, objects, "ConfigMap").Data,
			fmt.Sprintf("--set=serve.enabled=%t,serve.tlsSecret=tls", folder == "examples/serve")))
		if got := rightsIn(t, objects); !maps.Equal(got, want) {
			t.Errorf("the roles of %s grant\n%q\nits settings need\n%q", folder, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// exporter rbac and the chart make the same roles and bindings.
func TestTheChartGrantsWhatExporterRBACPrints(t *testing.T) {
	for _, test := range []struct {
		settings map[string]string
		args     []string
		values   []string
	}{
		{settings: map[string]string{"KUBECDC_RESOURCES": "pods,configmaps,deployments.v1.apps,widgets.example.com,secrets"}},
		{settings: map[string]string{"KUBECDC_RESOURCES": "pods,deployments.apps",
			"KUBECDC_NAMESPACES": "blog,shop"}},
		{settings: map[string]string{"KUBECDC_RESOURCES": "nodes"},
			args: []string{"--aggregate"}, values: []string{"--set=rbac.aggregate=true"}},
		{settings: map[string]string{"KUBECDC_RESOURCES": "pods", "KUBECDC_HTTP_ACCESS": "kubernetes"}},
		{settings: map[string]string{"KUBECDC_RESOURCES": "pods", "KUBECDC_NAMESPACES": "shop"},
			args: []string{"--aggregate"}, values: []string{"--set=rbac.aggregate=true"}},
		{settings: map[string]string{"KUBECDC_RESOURCES": "pods", "KUBECDC_NAMESPACES": "shop"},
			args: []string{"--aggregate", "--name=cdc"}, values: []string{"--set=rbac.aggregate=true", "--set=fullnameOverride=cdc"}},
	} {
		chart := rolesOf(chartFor(t, test.settings, append(test.values, "--set=config.KUBECDC_SINK=stdout")...))
		test.settings["KUBECDC_CHECKPOINT"] = "sqlite:/checkpoint.db"
		if printed := rolesOf(exporterRBAC(t, "", test.settings, test.args...)); !slices.Equal(chart, printed) {
			t.Errorf("%v: the chart has\n%s\nexporter rbac prints\n%s", test.settings, strings.Join(chart, "\n"), strings.Join(printed, "\n"))
		}
	}
}

// exporter rbac, the chart and the example make the same policy.
func TestTheChartHasThePolicyThatExporterRBACPrints(t *testing.T) {
	settings := map[string]string{"KUBECDC_RESOURCES": "pods", "KUBECDC_CHECKPOINT": "sqlite:/checkpoint.db"}
	for _, name := range []string{"kubecdc", "cdc"} {
		chart := objectsOf("admissionregistration.k8s.io", chartFor(t, map[string]string{"KUBECDC_RESOURCES": "pods", "KUBECDC_SINK": "stdout"},
			"--set=auditPolicy.enabled=true", "--set=fullnameOverride="+name))
		printed := objectsOf("admissionregistration.k8s.io", exporterRBAC(t, "", settings, "--audit-policy", "--name="+name))
		if !slices.Equal(chart, printed) || len(chart) != 2 {
			t.Errorf("the chart has\n%s\nexporter rbac prints\n%s", strings.Join(chart, "\n"), strings.Join(printed, "\n"))
		}
		if example := objectsOf("admissionregistration.k8s.io", build(t, "examples/audit-policy")); name == "kubecdc" && !slices.Equal(example, printed) {
			t.Errorf("the example is not what exporter rbac --audit-policy prints: write it to examples/audit-policy/policy.yaml:\n%s", strings.Join(example, "\n"))
		}
	}
}

// rolesOf returns the roles and bindings among the objects.
func rolesOf(objects []*unstructured.Unstructured) []string {
	return objectsOf("rbac.authorization.k8s.io", objects)
}

// objectsOf returns the objects of an API group, as JSON without labels.
func objectsOf(group string, objects []*unstructured.Unstructured) (texts []string) {
	for _, o := range objects {
		if o.GroupVersionKind().Group == group {
			o.SetLabels(nil)
			text, _ := json.Marshal(o)
			texts = append(texts, string(text))
		}
	}
	slices.Sort(texts)
	return texts
}
