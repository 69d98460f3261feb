package deploy

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// pod returns a function that runs the read-only image with the additions of kubelet, and with a volume for the state.
func pod(t *testing.T, kube *servers.Kubernetes, token string) func(args ...string) *exec.Cmd {
	t.Helper()
	root := podRoot(t, kube, token)
	volume(t, root, "state")
	return func(args ...string) *exec.Cmd {
		c := container(t, root, args...)
		c.Env = append(podEnvironment(t, kube), "KUBECDC_LISTEN=off", "KUBECDC_LOG_FORMAT=text", "XDG_STATE_HOME=/state", "KUBECDC_RESOURCES=configmaps",
			"KUBECDC_SINK=stdout")
		return c
	}
}

// podRoot returns the read-only file system of the image with the additions of kubelet: the ServiceAccount's token, and the cluster's CA.
func podRoot(t *testing.T, kube *servers.Kubernetes, token string) (root string) {
	t.Helper()
	root = image(t)
	makeReadOnly(t, root)
	account := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	ca, err := os.ReadFile(kube.Config.CAFile)
	must(t, err)
	must(t, os.MkdirAll(account, 0o755))
	for name, content := range map[string]string{"token": token, "ca.crt": string(ca), "namespace": "kubecdc"} {
		must(t, os.WriteFile(filepath.Join(account, name), []byte(content), 0o644))
	}
	return root
}

// volume adds a folder to which the image's user may write.
func volume(t *testing.T, root, path string) {
	t.Helper()
	path = filepath.Join(root, path)
	must(t, os.MkdirAll(path, 0o755))
	must(t, os.Chmod(path, 0o777))
}

// podEnvironment returns kubelet's additions to the environment: the address of the API server.
func podEnvironment(t *testing.T, kube *servers.Kubernetes) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(kube.Address)
	must(t, err)
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
}

// A Pod has no context to take a name from. The name comes from the cluster's uid, and so differs between clusters.
func TestInAPodTheClustersNameComesFromItsUID(t *testing.T) {
	kube := servers.Kube(t)
	apply(t, kube.Config, build(t, "base"))
	admin := clientset(t, kube.Config)
	ns, err := admin.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	must(t, err)
	name := "k8s-" + string(ns.UID[:8])
	exporter := pod(t, kube, accountToken(t, admin, "kubecdc", "kubecdc"))

	out, err := exporter("check").CombinedOutput()
	for _, want := range []string{`as "` + name + `" (the Pod's ServiceAccount), uid ` + string(ns.UID), "/state/kubecdc/" + name + "-stdout.db"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("check: %v, lacks %s\n%s", err, want, out)
		}
	}
	run := exporter("run")
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	must(t, err)
	defer output.Close()
	run.Stdout, run.Stderr = output, output
	process, err := child.Start(run)
	must(t, err)
	defer process.Kill()
	e2e.Await(t, "a record of "+name, func() (bool, error) {
		text, err := os.ReadFile(output.Name())
		return strings.Contains(string(text), `"db":"`+name+`"`), err
	})
}

// A Pod may write only to the state folder. Each sink and checkpoint has room there for data that does not fit in memory. Such data
// are new versions of a large object, and its redaction by a stricter rule.
func TestInAPodLargeObjectsNeedNoOtherFolder(t *testing.T) {
	largeObjectsInAPod(t, map[string]func(*testing.T) []string{
		"stdout": func(*testing.T) []string { return []string{"KUBECDC_SINK=stdout"} },
		"sqlite": func(*testing.T) []string { return []string{"KUBECDC_SINK=sqlite"} },
	})
}

func TestSlowInAPodLargeObjectsNeedNoOtherFolder(t *testing.T) {
	servers.Slow(t)
	kafka := func(t *testing.T) []string {
		return []string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=" + strings.Join(servers.SharedKafka(t).Brokers, ","),
			"KUBECDC_KAFKA_TOPIC_PREFIX=" + servers.UniqueName()}
	}
	largeObjectsInAPod(t, map[string]func(*testing.T) []string{
		"kafka":               kafka,
		"kafka with postgres": func(t *testing.T) []string { return append(kafka(t), "KUBECDC_CHECKPOINT="+servers.Database(t)) },
		"postgres": func(t *testing.T) []string {
			url := servers.Database(t)
			return []string{"KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES=" + url, "KUBECDC_CHECKPOINT=" + url}
		},
	})
}

func largeObjectsInAPod(t *testing.T, logs map[string]func(*testing.T) []string) {
	kube := servers.Kube(t)
	apply(t, kube.Config, build(t, "base"))
	exporter := pod(t, kube, accountToken(t, clientset(t, kube.Config), "kubecdc", "kubecdc"))
	for name, settings := range logs {
		t.Run(name, func(t *testing.T) {
			p := &podWithLargeObject{exporter: exporter, settings: settings(t), reads: name != "stdout",
				api: clientset(t, kube.Config).CoreV1().ConfigMaps(servers.Namespace(t))}
			p.run(t, 1, 6)
			p.settings = append(p.settings, "KUBECDC_REDACT=configmaps:data.large")
			p.run(t, 7, 8)
		})
	}
}

// podWithLargeObject is a Pod whose cluster has an object of 60 KB.
type podWithLargeObject struct {
	exporter func(args ...string) *exec.Cmd
	settings []string
	reads    bool // its log can be asked
	api      corev1client.ConfigMapInterface
}

// run runs the exporter while the object gets new versions, and waits until the log has each.
func (p *podWithLargeObject) run(t *testing.T, from, to int) {
	t.Helper()
	records, log := &child.Output{}, &child.Output{}
	run := p.command("run")
	run.Stdout, run.Stderr = records, log
	process, err := child.Start(run)
	must(t, err)
	defer process.Kill()
	defer func() {
		if t.Failed() {
			t.Logf("the exporter said:\n%s", log)
		}
	}()
	for n := from; n <= to; n++ {
		version := p.put(t, n)
		e2e.Await(t, fmt.Sprintf("version %d of the object", n), func() (bool, error) {
			if !process.Running() {
				t.Fatal("the exporter has ended")
			}
			if !p.reads {
				return strings.Contains(records.String(), `"resourceVersion":"`+version+`"`), nil
			}
			out, err := p.command("history", "configmaps", "large", "-o", "json").Output()
			return err == nil && strings.Contains(string(out), `"resourceVersion":"`+version+`"`), nil
		})
	}
}

func (p *podWithLargeObject) command(args ...string) *exec.Cmd {
	c := p.exporter(args...)
	c.Env = append(c.Env, p.settings...)
	return c
}

// put writes version n of the object, and returns its resourceVersion.
func (p *podWithLargeObject) put(t *testing.T, n int) string {
	t.Helper()
	var large strings.Builder
	for large.Len() < 60_000 {
		large.WriteString(rand.Text())
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"large": large.String()}}
	write := func() (*corev1.ConfigMap, error) { return p.api.Update(t.Context(), m, metav1.UpdateOptions{}) }
	if n == 1 {
		write = func() (*corev1.ConfigMap, error) { return p.api.Create(t.Context(), m, metav1.CreateOptions{}) }
	}
	written, err := write()
	must(t, err)
	return written.ResourceVersion
}

// Without the right to read the uid there is no default name. Any other name would change when the right is granted, and begin
// another log.
func TestInAPodWithoutTheUIDANameMustBeSet(t *testing.T) {
	kube := servers.Kube(t)
	apply(t, kube.Config, build(t, "base"))
	admin := clientset(t, kube.Config)
	nobody := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: servers.UniqueName()}}
	if _, err := admin.CoreV1().ServiceAccounts("kubecdc").Create(t.Context(), nobody, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	exporter := pod(t, kube, accountToken(t, admin, "kubecdc", nobody.Name))
	for command, code := range map[string]int{"run": 2, "check": 1} {
		c := exporter(command)
		out, _ := c.CombinedOutput()
		for _, want := range []string{"KUBECDC_CLUSTER", "to a name that no other cluster has, or grant get on namespace kube-system"} {
			if c.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) {
				t.Errorf("%s: exit code %d, lacks %q\n%s", command, c.ProcessState.ExitCode(), want, out)
			}
		}
	}
}
