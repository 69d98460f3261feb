package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// Two replicas have a stream each. etcd is restored from a backup, and grows past their positions before they reach it again. The
// stream of ConfigMaps sees that by its newest object; that of Roles, in the other replica, can't see it: what it lacks was deleted
// after the backup, and what it has is older. It is told, also where the replica that has found it dies at once.
func TestARestoreIsToldToOtherReplicas(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles}
	proxy, env := w.atProxy(t, "KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_SLOTS", "2")
	for _, step := range []string{"", failpoint.RestoreTold} {
		finder := StartExporter(t, "the one that finds it "+step, with(env, "KUBECDC_FAILPOINT", step))
		finder.AwaitReady(t)
		slots := readLeases(t, w)
		other := StartExporter(t, "the other one", env)
		slots.await(30*time.Second, 1, finder, other)
		var owner string
		must(t, slots.conn.QueryRow(t.Context(), `select split_part(owner, '/', 2) from kubecdc.slots where slot = 0`).Scan(&owner))
		if owner != fmt.Sprint(finder.cmd.Process.Pid) {
			t.Fatal("the stream of ConfigMaps is in the other replica")
		}
		before := len(w.Read(t).controlsOf(Roles.Stream(), change.ControlGap))
		w.restoreUnseen(t, proxy, "after"+step)
		if step != "" {
			finder.Wait(t, 60*time.Second)
		}
		Await(t, 60*time.Second, "both streams to have the cluster's state", func() (bool, error) {
			v, log := &Verdict{}, w.Read(t)
			for _, kind := range kinds {
				v.finalState(t, w.Kube, kind, log.ByKey(w.Prefix, kind))
			}
			return v.Wrong == 0, nil
		})
		gaps := w.Read(t).controlsOf(Roles.Stream(), change.ControlGap)
		if len(gaps) == before || !strings.Contains(gaps[len(gaps)-1].Gap.Reason, "history went backwards") {
			t.Errorf("the gaps of Roles: %+v", gaps)
		}
		Await(t, 30*time.Second, "the signals to be answered", func() (bool, error) {
			open := 0
			for _, g := range w.signals(t) {
				if !g.State.Ended() {
					open++
				}
			}
			return open == 0 && len(w.signals(t)) > 0, nil
		})
		finder.Kill()
		other.Kill()
	}
}

// restoreUnseen restores etcd from a backup without which nothing but the newest ConfigMap shows it.
func (w *World) restoreUnseen(t *testing.T, proxy *servers.Proxy, name string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(w.Kube.Config)
	roles, maps := client.RbacV1().Roles("default"), client.CoreV1().ConfigMaps("default")
	create := func(name string) {
		_, err := maps.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	await := func(what string, kind Kind, key string, want bool) {
		Await(t, 60*time.Second, what, func() (bool, error) {
			records := w.Read(t).ByKey(w.Prefix, kind)["default/"+key]
			return (len(records) > 0 && records[len(records)-1].After != nil) == want, nil
		})
	}
	_, err := roles.Create(t.Context(), &rbac.Role{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	await("the role", Roles, name, true)
	backup, err := w.Kube.SnapshotEtcd(t.Context())
	must(t, err)
	must(t, roles.Delete(t.Context(), name, metav1.DeleteOptions{}))
	create(name)
	await("the deletion", Roles, name, false)
	await("the newest ConfigMap", ConfigMaps, name, true)
	seen, err := w.Kube.Revision(t.Context())
	must(t, err)
	proxy.Cut()
	must(t, w.Kube.RestoreEtcd(t.Context(), backup))
	for i := 0; ; i++ {
		now, err := w.Kube.Revision(t.Context())
		must(t, err)
		if now > seen+20 {
			break
		}
		create(fmt.Sprint(name, "-", i))
	}
	must(t, proxy.Restore())
}
