package deploy

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// TestTheExporterRunsWithTheAccountsToken runs what the base deploys, without Kafka and Postgres: it writes to stdout and keeps
// its checkpoint in a file.
func TestTheExporterRunsWithTheAccountsToken(t *testing.T) {
	kube := servers.Kube(t)
	objects := build(t, "base")
	apply(t, kube.Config, objects)
	admin := clientset(t, kube.Config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := kube.WriteKubeconfig(kubeconfig, kube.Address, accountToken(t, admin, "kubecdc", "kubecdc")); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, e := range environment(t, objects) {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	maps.Copy(env, map[string]string{"KUBECONFIG": kubeconfig, "KUBECDC_SINK": "stdout", "KUBECDC_KAFKA_BROKERS": "",
		"KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")})
	exporter := e2e.StartExporter(t, "exporter", env)
	exporter.AwaitReady(t)

	name := servers.UniqueName()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, 30*time.Second, "the record of a new ConfigMap", func() (bool, error) {
		return strings.Contains(exporter.Output(), `"name":"`+name+`"`), nil
	})
	if log := exporter.Tail(1 << 20); strings.Contains(log, "forbidden") || strings.Contains(log, "by its CA alone") {
		t.Errorf("the account lacks a right:\n%s", log)
	}
}
