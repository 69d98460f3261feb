package servers_test

import (
	"context"
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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

func TestTheKubeconfigIsAnAdmins(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", servers.Kube(t).Kubeconfig)
	check(t, err)
	createConfigMap(t, client(t, config), servers.Namespace(t), "a")
}

func TestObjectsOutliveAKilledAPIServer(t *testing.T) {
	k := servers.Kube(t)
	c, ns := client(t, k.Config), servers.Namespace(t)
	createConfigMap(t, c, ns, "a")
	k.KillAPIServer()
	check(t, k.StartAPIServer(t.Context()))
	_, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{})
	check(t, err)
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

func TestHistoryIsReadableUntilItIsCompacted(t *testing.T) {
	t.Parallel()
	k, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{CompactionInterval: -1})
	check(t, err)
	defer k.Stop()
	c := client(t, k.Config)
	rv := createConfigMap(t, c, "default", "a").ResourceVersion
	check(t, c.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	past := metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact}

	check(t, k.RestartAPIServer(t.Context()))
	list, err := c.CoreV1().ConfigMaps("default").List(t.Context(), past)
	check(t, err)
	if len(list.Items) != 1 {
		t.Fatalf("at revision %s the API server lists %d config maps, want 1", rv, len(list.Items))
	}
	check(t, k.Compact(t.Context(), 0))
	if _, err := c.CoreV1().ConfigMaps("default").List(t.Context(), past); !apierrors.IsResourceExpired(err) {
		t.Fatalf("read at a compacted revision: %v, want 410 Expired", err)
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

func TestASnapshotOfEtcdBringsBackWhatWas(t *testing.T) {
	t.Parallel()
	k, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{})
	check(t, err)
	defer k.Stop()
	c := client(t, k.Config)
	createConfigMap(t, c, "default", "before")
	snapshot, err := k.SnapshotEtcd(t.Context())
	check(t, err)
	createConfigMap(t, c, "default", "after")

	check(t, k.RestoreEtcd(t.Context(), snapshot))
	_, err = c.CoreV1().ConfigMaps("default").Get(t.Context(), "before", metav1.GetOptions{})
	check(t, err)
	_, err = c.CoreV1().ConfigMaps("default").Get(t.Context(), "after", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("get what was created after the snapshot: %v, want not found", err)
	}
}

func TestTwoAPIServersShowTheSameObjects(t *testing.T) {
	t.Parallel()
	k, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{})
	check(t, err)
	defer k.Stop()
	second, err := k.AddAPIServer(t.Context())
	check(t, err)
	createConfigMap(t, client(t, k.Config), "default", "a")
	_, err = client(t, second.Config).CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	check(t, err)
}

func TestServiceAccountsGetTokensButNoRights(t *testing.T) {
	k := servers.Kube(t)
	c, ns := client(t, k.Config), servers.Namespace(t)
	_, err := c.CoreV1().ServiceAccounts(ns).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{})
	check(t, err)
	token, err := c.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "reader",
		&authv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err)
	reader := client(t, k.UserConfig(k.Address, token.Status.Token))
	if _, err := reader.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("list without a role: %v, want forbidden", err)
	}
}

func TestADeletedNamespaceGoesWhenFinalized(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	c := client(t, k.Config)
	check(t, c.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	check(t, k.FinalizeNamespace(t.Context(), ns))
	_, err := c.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("get the namespace: %v, want not found", err)
	}
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := servers.StartKubernetes(context.Background(),
		servers.KubernetesOptions{APIServerFlags: []string{"--no-such-flag"}})
	var failed *servers.ServerError
	if !asServerError(err, &failed) || !contains(failed.Tail, "no-such-flag") {
		t.Fatalf("error of a server with a bad flag: %v, want the log's last lines in it", err)
	}
}
