package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// etcd is restored from a backup, and grows past the positions before two replicas can reach the API server. The stream of
// ConfigMaps detects it by its newest object. The stream of Deployments, in the other replica, can't detect it, since its missing
// objects were deleted after the backup and the others are older. It follows, even if the first replica dies before any stream has
// followed.
func TestSlowARestoreIsFollowedByTheStreamsOfOtherReplicas(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	proxy, env := w.atProxy(t, "KUBECDC_SLOTS", "2", "KUBECDC_RESOURCES", Resources([]Kind{ConfigMaps, Deployments}))
	writer := w.Writer(t, []Kind{ConfigMaps, Deployments})
	w.restored(t, writer, proxy, env, 0)
	w.restored(t, writer, proxy, withSettings(env, "KUBECDC_FAILPOINT", failpoint.RestoreReported), 1)
}

// restored restores etcd while two replicas run, of which die are killed.
func (w *World) restored(t *testing.T, writer *Writer, proxy *servers.Proxy, env map[string]string, die int) {
	t.Helper()
	before := w.wentBack(t)
	replicas := []*Exporter{StartExporter(t, "one", env)}
	replicas[0].AwaitReady(t) // the checkpoint's tables are there
	replicas = append(replicas, StartExporter(t, "another", env))
	readLeases(t, w).await("the start", 1, replicas...)
	writer.Fill(3)
	w.AwaitComplete(t, writer, writer.kinds)

	backup, err := w.Kube.SnapshotEtcd(context.Background())
	must(t, err)
	deployments := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(Deployments.GVR).Namespace("default")
	for _, name := range []string{"fill1", "fill2"} {
		writer.insist(func(ctx context.Context) error { return deployments.Delete(ctx, name, metav1.DeleteOptions{}) })
	}
	w.awaitState(t, Deployments)
	newest := writer.mark(ConfigMaps)
	w.awaitMarks(t, map[change.StreamID]change.ResourceVersion{ConfigMaps.Stream(): newest})
	proxy.Cut()
	must(t, w.Kube.RestoreEtcd(context.Background(), backup))
	for version := change.ResourceVersion(""); version.Compare(newest) <= 0; {
		version = writer.mark(ConfigMaps)
	}
	must(t, proxy.Restore())

	w.awaitState(t, ConfigMaps)
	w.awaitState(t, Deployments)
	for _, e := range replicas {
		if !e.Running() {
			die--
		}
		e.Signal(syscall.SIGTERM)
		e.Wait(t)
	}
	if die != 0 {
		t.Errorf("%d more replicas should have died", die)
	}
	for stream, n := range w.wentBack(t) {
		if n -= before[stream]; n != 1 {
			t.Errorf("%s has %d gap records that say that history went backwards, not 1", stream, n)
		}
	}
	for _, g := range w.signals(t) {
		if g.State != change.SignalCompleted {
			t.Errorf("signal %+v", g)
		}
	}
}

// awaitState waits until the log has the cluster's objects of a kind.
func (w *World) awaitState(t *testing.T, kind Kind) {
	t.Helper()
	var v *Verdict
	defer func() {
		if t.Failed() {
			t.Log(v.Examples)
		}
	}()
	Await(t, kind.ID()+" in the log as they are in the cluster", func() (bool, error) {
		v = w.state(t, w.Read(t), kind)
		return v.Wrong == 0, nil
	})
}

// wentBack returns for each stream how often the log says that its history went backwards.
func (w *World) wentBack(t *testing.T) map[change.StreamID]int {
	t.Helper()
	n := map[change.StreamID]int{ConfigMaps.Stream(): 0, Deployments.Stream(): 0}
	for _, c := range w.controls(t) {
		if c.Gap != nil && strings.Contains(c.Gap.Reason, "history went backwards") {
			n[c.Stream]++
		}
	}
	return n
}
