package deploy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// pod is the image with what kubelet adds to a Pod: the ServiceAccount's token, the cluster's CA, and the address of the API
// server.
func pod(t *testing.T, kube *servers.Kubernetes, token string) func(args ...string) *exec.Cmd {
	t.Helper()
	root := image(t)
	account := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	ca, err := os.ReadFile(kube.Config.CAFile)
	if err == nil {
		err = os.MkdirAll(account, 0o755)
	}
	for name, content := range map[string]string{"token": token, "ca.crt": string(ca), "namespace": "kubecdc"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(account, name), []byte(content), 0o644)
		}
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(root, "state"), 0o777)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(root, "state"), 0o777)
	}
	host, port, err2 := net.SplitHostPort(kube.Address)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return func(args ...string) *exec.Cmd {
		c := container(t, root, args...)
		c.Env = []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port, "KUBECDC_LISTEN=off", "KUBECDC_LOG_FORMAT=text",
			"XDG_STATE_HOME=/state", "KUBECDC_RESOURCES=configmaps", "KUBECDC_SINK=stdout"}
		return c
	}
}

// In a Pod there is no context to take a name from. The name comes from the cluster's uid, and so differs between clusters.
func TestInAPodTheClustersNameComesFromItsUID(t *testing.T) {
	kube := servers.Kube(t)
	apply(t, kube.Config, build(t, "base"))
	admin := clientset(t, kube.Config)
	ns, err := admin.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	run.Stdout, run.Stderr = output, output
	process, err := child.Start(run)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	e2e.Await(t, "a record of "+name, func() (bool, error) {
		text, err := os.ReadFile(output.Name())
		return strings.Contains(string(text), `"db":"`+name+`"`), err
	})
}

// Without the right to read the uid there is no default name. A name derived from anything else would change, and begin another
// log, when the right is granted.
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
