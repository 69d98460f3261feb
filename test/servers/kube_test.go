package servers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/test/servers"
)

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	check(t, err)
	return c
}

func createConfigMap(t *testing.T, c kubernetes.Interface, ns, name string) *corev1.ConfigMap {
	t.Helper()
	cm, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	check(t, err)
	return cm
}

func TestARestartedAPIServerHasForgottenItsWatchCache(t *testing.T) {
	k := servers.Kube(t)
	c, ns := client(t, k.Config), servers.Namespace(t)
	old := createConfigMap(t, c, ns, "a").ResourceVersion
	createConfigMap(t, c, ns, "b")
	check(t, k.RestartAPIServer(t.Context()))
	w, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: old})
	check(t, err)
	defer w.Stop()
	event := <-w.ResultChan()
	if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
		t.Fatalf("first event of a watch from before the restart: %v, want 410 Expired", event)
	}
}

func TestEtcdTellsItsHistory(t *testing.T) {
	k := servers.Kube(t)
	c, ns := client(t, k.Config), servers.Namespace(t)
	from, err := k.Revision(t.Context())
	check(t, err)
	cm := createConfigMap(t, c, ns, "a")
	cm.Data = map[string]string{"k": "v"}
	_, err = c.CoreV1().ConfigMaps(ns).Update(t.Context(), cm, metav1.UpdateOptions{})
	check(t, err)
	check(t, c.CoreV1().ConfigMaps(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}))

	events, err := k.EtcdHistory(t.Context(), "/registry/configmaps/"+ns+"/", from)
	check(t, err)
	ops := ""
	for _, e := range events {
		ops += e.Op
	}
	if ops != "cud" {
		t.Fatalf("etcd tells %q, want create, update, delete", ops)
	}
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := servers.StartKubernetes(context.Background(),
		servers.KubernetesOptions{APIServerFlags: []string{"--no-such-flag"}})
	var failed *servers.ServerError
	if !errors.As(err, &failed) || !strings.Contains(failed.Tail, "no-such-flag") {
		t.Fatalf("error of a server with a bad flag: %v, want the log's last lines in it", err)
	}
}
