package deploy

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// Helm's own commands install a release, change a setting, and uninstall the release. The change replaces the Pods. The volume
// remains, and the next install uses it.
func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	const ns, name = "helm", "cdc-kubecdc"
	restricted(t, admin, ns)
	run := func(args ...string) string {
		t.Helper()
		out, stderr, err := helm(t, append(args, "--namespace", ns, "--kubeconfig", kube.Kubeconfig)...)
		if err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, stderr)
		}
		return out
	}
	values := []string{"--set=config.KUBECDC_SINK=stdout", "--set=persistence.enabled=true", "--set=rbac.aggregate=true",
		"--set=secret.KUBECDC_SECRETS_KEY=0123456789abcdef"}
	output := run(append([]string{"install", "cdc", "chart", "--set=secret.KUBECDC_SINK_POSTGRES=postgres://gone"}, values...)...)
	for _, want := range []string{"to stdout", "kubectl -n helm rollout status deployment/cdc-kubecdc",
		"services/cdc-kubecdc:http/proxy/readyz"} {
		if !strings.Contains(output, want) {
			t.Errorf("the text after the installation lacks %q:\n%s", want, output)
		}
	}
	first := deployment(t, admin, ns, name)
	aggregates(t, admin, name+"-aggregated:"+ns)
	run(append([]string{"upgrade", "cdc", "chart", "--set=config.KUBECDC_SLOTS=2"}, values...)...)
	second := deployment(t, admin, ns, name)
	if first.Spec.Template.Annotations["checksum/config"] == second.Spec.Template.Annotations["checksum/config"] {
		t.Errorf("another setting makes no other Pod: %v", second.Spec.Template.Annotations)
	}
	secret, err := admin.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{})
	if keys := slices.Collect(maps.Keys(secret.Data)); err != nil || !slices.Equal(keys, []string{"KUBECDC_SECRETS_KEY"}) {
		t.Errorf("%v: the Secret still has %q", err, keys)
	}
	run("install", "bare", "chart") // without values
	if claim := deployment(t, admin, ns, "bare-kubecdc").Spec.Template.Spec.Volumes[0].PersistentVolumeClaim; claim.ClaimName != "bare-kubecdc" {
		t.Errorf("without values, the volume is %v", claim)
	}
	output = run("upgrade", "bare", "chart", "--reset-then-reuse-values", "--set=serve.enabled=true,serve.tlsSecret=past-tls")
	containers := deployment(t, admin, ns, "bare-kubecdc").Spec.Template.Spec.Containers
	if len(containers) != 2 || !strings.Contains(output, "--tls-server-name bare-kubecdc-serve.helm.svc") {
		t.Errorf("with serve.enabled, the containers are %v, and the text is\n%s", containers, output)
	}
	run("uninstall", "cdc")
	if _, err := admin.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the uninstall, the Deployment: %v", err)
	}
	if _, err := admin.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Errorf("after the uninstall, the volume: %v", err)
	}
	run(append([]string{"install", "cdc", "chart"}, values...)...)
}

// An upgrade from the chart that wrote to Kafka by default changes neither what a release exports, nor where to, nor its rights.
func TestAnUpgradeChangesNeitherSinkNorRights(t *testing.T) {
	const before = "testdata/chart-0.2.0-before-sqlite.tgz" // as of commit 66e468f3
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	installMonitors(t, kube)
	for _, file := range chartValues(t) {
		ns := "upgrade-" + strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		for _, name := range []string{ns, "shop", "blog"} {
			restricted(t, admin, name)
		}
		run := func(args ...string) []*unstructured.Unstructured {
			t.Helper()
			for _, args := range [][]string{args, {"get", "manifest", "cdc"}} {
				out, stderr, err := helm(t, append(args, "--namespace", ns, "--kubeconfig", kube.Kubeconfig)...)
				if err != nil {
					t.Fatalf("helm %v: %v\n%s", args, err, stderr)
				}
				if args[0] == "get" {
					return decode(t, out)
				}
			}
			return nil
		}
		values := []string{"--values=" + file, "--set=fullnameOverride=" + ns, "--set=auditPolicy.enabled=false"}
		old := run(append([]string{"install", "cdc", before}, values...)...)
		for _, args := range [][]string{append([]string{"upgrade", "cdc", "chart"}, values...), {"upgrade", "cdc", "chart", "--reuse-values"}} {
			upgraded := run(args...)
			if before, after := rightsIn(t, old), rightsIn(t, upgraded); !maps.Equal(before, after) {
				t.Errorf("%s: the rights were\n%v\nand are\n%v", file, before, after)
			}
			first, second := find[corev1.ConfigMap](t, old, "ConfigMap").Data, find[corev1.ConfigMap](t, upgraded, "ConfigMap").Data
			if !maps.Equal(first, second) {
				t.Errorf("%s: the settings were\n%v\nand are\n%v", file, first, second)
			}
		}
	}
}

// The administrator of only one namespace can install the chart there. The exporter runs with a Role.
func TestAnAdminOfOneNamespaceInstalls(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	ns := servers.Namespace(t)
	team := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	_, err := admin.CoreV1().ServiceAccounts(ns).Create(t.Context(), team, metav1.CreateOptions{})
	if err == nil {
		_, err = admin.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: team.ObjectMeta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = admin.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: team.ObjectMeta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "team"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "team"}}}, metav1.CreateOptions{})
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err == nil {
		err = kube.WriteKubeconfig(kubeconfig, kube.Address, accountToken(t, admin, ns, "team"))
	}
	must(t, err)
	settings := map[string]string{"KUBECDC_SINK": "stdout", "KUBECDC_RESOURCES": "configmaps", "KUBECDC_NAMESPACES": ns, "KUBECDC_CLUSTER": ns}
	args := []string{"install", "cdc", "chart", "--namespace", ns, "--kubeconfig", kubeconfig, "--set=rbac.clusterRole=false,persistence.enabled=true"}
	for name, value := range settings {
		args = append(args, "--set=config."+name+"="+value)
	}
	if _, stderr, err := helm(t, args...); err != nil {
		t.Fatalf("helm install: %v\n%s", err, stderr)
	}
	must(t, kube.WriteKubeconfig(kubeconfig, kube.Address, accountToken(t, admin, ns, "cdc-kubecdc")))
	settings["KUBECONFIG"], settings["KUBECDC_CHECKPOINT"] = kubeconfig, "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db")
	exporter := e2e.StartExporter(t, "exporter", settings)
	e2e.Await(t, "the record of a ConfigMap in its namespace", func() (bool, error) {
		return strings.Contains(exporter.Output(), `"name":"cdc-kubecdc","namespace":"`+ns+`"`), nil
	})
}

// aggregates makes the control plane's controller the owner of a ClusterRole's rules. The controller itself does not run here.
func aggregates(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	role := rbac.ClusterRole(name).WithRules(rbac.PolicyRule().WithAPIGroups("example.com").WithResources("gizmos").WithVerbs("list", "watch"))
	_, err := admin.RbacV1().ClusterRoles().Apply(t.Context(), role,
		metav1.ApplyOptions{FieldManager: "clusterrole-aggregation-controller", Force: true})
	must(t, err)
}

// Releases of one name in two namespaces share no role. After one is uninstalled, the other still has its rights.
func TestReleasesOfOneNameInTwoNamespaces(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	namespaces := []string{servers.Namespace(t), servers.Namespace(t)}
	run := func(ns string, args ...string) {
		t.Helper()
		if _, stderr, err := helm(t, append(args, "--namespace", ns, "--kubeconfig", kube.Kubeconfig)...); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, stderr)
		}
	}
	for _, ns := range namespaces {
		run(ns, "install", "cdc", "chart", "--set=config.KUBECDC_SINK=stdout", "--set=persistence.enabled=true",
			"--set=config.KUBECDC_NAMESPACES=default", "--set=config.KUBECDC_RESOURCES=pods", "--set=rbac.aggregate=true")
	}
	run(namespaces[1], "uninstall", "cdc")
	account := clientset(t, kube.UserConfig(kube.Address, accountToken(t, admin, namespaces[0], "cdc-kubecdc")))
	for _, right := range []authorization.ResourceAttributes{{Verb: "list", Resource: "pods", Namespace: "default"},
		{Verb: "get", Resource: "namespaces", Name: "kube-system"}} {
		if !may(t, account, right) {
			t.Errorf("the release that is left may not %v", right)
		}
	}
}

func deployment(t *testing.T, admin kubernetes.Interface, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d, err := admin.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return d
}

// TestTheFirstRecordAfterAnInstall measures the time from helm template and kubectl apply to the first record in Postgres. It
// includes the steps that the test does in place of a cluster's controllers and kubelet. It lacks the time that a cluster needs to
// schedule the Pod and to pull the image.
func TestTheFirstRecordAfterAnInstall(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	const ns = "first-record"
	database := servers.Database(t)
	restricted(t, admin, ns)
	e2e.Binary(t)
	if _, err := helmCommand(); err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	objects := render(t, ns, "--set=config.KUBECDC_SINK=postgres", "--set=config.KUBECDC_RESOURCES=configmaps",
		"--set=fullnameOverride="+ns, "--set=secret.KUBECDC_CHECKPOINT="+database, "--set=secret.KUBECDC_SINK_POSTGRES="+database)
	rendered := time.Now()
	apply(t, kube.Config, objects)
	applied := time.Now()
	env := map[string]string{"KUBECONFIG": filepath.Join(t.TempDir(), "kubeconfig")}
	for _, e := range environment(t, objects) {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	must(t, kube.WriteKubeconfig(env["KUBECONFIG"], kube.Address, accountToken(t, admin, ns, ns)))
	e2e.StartExporter(t, "exporter", env)
	db := servers.Connect(t, database)
	var written time.Time
	e2e.Await(t, "the first record", func() (bool, error) {
		err := db.QueryRow(t.Context(), "select written from kubecdc_log.changes order by written limit 1").Scan(&written)
		return err == nil, nil
	})
	t.Logf("helm template %d ms, apply %d ms, start to first record %d ms: first record after %d ms", rendered.Sub(began).Milliseconds(),
		applied.Sub(rendered).Milliseconds(), written.Sub(applied).Milliseconds(), written.Sub(began).Milliseconds())
}

// After the README's own lines, the chart's Pod is admitted under restricted Pod Security, and runs the image that make image makes.
func TestTheReadmesLinesInstall(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	block := regexp.MustCompile("make image IMAGE=(\\S+) [^`]*helm install (kubecdc deploy/chart [^`]*)```").FindStringSubmatch(string(readme))
	if block == nil {
		t.Fatal("README.md has no lines that install")
	}
	command, err := helmCommand()
	must(t, err)
	sh := func(line string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-c", "cd .. && "+line)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return string(out)
	}
	const ns = "readme" // other tests have installed into the README's namespace
	restricted(t, admin, ns)
	objects := decode(t, sh(command+" template "+strings.ReplaceAll(block[2], "--namespace kubecdc", "--namespace "+ns)))
	apply(t, kube.Config, objects)
	wantAdmitted(t, admin, objects)
	made := regexp.MustCompile(`-version '(\S+)' -image '(\S+)'`).FindStringSubmatch(sh("make -n image IMAGE=" + block[1]))
	if image := find[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0].Image; made == nil || image != made[2]+":"+made[1] {
		t.Errorf("the chart's image is %s, and make image makes %q", image, made)
	}
}
