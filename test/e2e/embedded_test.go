package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// The log in a file has etcd's history once and in order, and the cluster's state, under kill -9 at each step and at random
// moments. It answers for both while it is written.
func TestTheEmbeddedLogKeepsEveryChangeOnce(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	storedOnce(t, w, func() {
		for _, ask := range [][]string{{"history", "configmaps", "-A"}, {"state", "configmaps", "-A"}, {"checkpoints", "list"}, {"status"}, {"verify"},
			{"tail", "--follow=false", "--since", "1h"}, {"pause", "secrets"}, {"resume", "secrets"}, {"snapshot", "configmaps"}} {
			if out := mustRun(t, w.Env, ask...); strings.TrimSpace(out) == "" {
				t.Errorf("exporter %s prints nothing", ask)
			}
		}
		other := StartExporter(t, "another one", w.Env)
		if code := other.Wait(t); code != 1 || !strings.Contains(other.Tail(2000), "in use by another process") {
			t.Errorf("another owner exits with %d:\n%s", code, other.Tail(2000))
		}
	})
}

// The log in the file has etcd's history once and in order. At random moments the exporter dies, at a step or anywhere, is
// suspended, or cut off from the API server, which dies too.
func TestSlowChaosWithAnEmbeddedLog(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewFileWorld(t)
	InstallWidgets(t, w.Kube.Config)
	seed := chaosSeed(t)
	random := rand.New(rand.NewPCG(seed, 3))
	writer := NewWriter(t, w.Kube.Config, seed, Kinds)
	writer.Run(40)
	proxy, err := servers.NewProxy(w.Kube.Address)
	must(t, err)
	t.Cleanup(func() { proxy.Close() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, w.Kube.WriteKubeconfig(kubeconfig, proxy.Address, ""))
	r := startReplica(t, "the exporter", w.With("KUBECONFIG", kubeconfig, "KUBECDC_PROOF_INTERVAL", "2s"))
	t.Cleanup(r.end)
	stop := writer.Start(15)
	positions := func() map[change.StreamID]change.ResourceVersion {
		positions := map[change.StreamID]change.ResourceVersion{}
		for _, c := range w.fileControls(t) {
			for _, p := range c.Positions {
				positions[p.Stream] = p.ResourceVersion
			}
		}
		return positions
	}
	w.awaitCurrent(t, "the start", positions)
	for i := range chaosFaults(t, 5) {
		switch random.IntN(6) {
		case 0:
			r.exporter().Kill()
		case 1:
			r.restartWith("KUBECDC_FAILPOINT", failpoint.All[random.IntN(len(failpoint.All))]+":1")
		case 2:
			e := r.exporter()
			e.Signal(syscall.SIGSTOP)
			awaitMade(t, writer, writer.Made.Load()+15)
			e.Signal(syscall.SIGCONT)
		case 3:
			w.Kube.KillAPIServer()
			must(t, w.Kube.StartAPIServer(context.Background()))
		case 4:
			proxy.Cut()
			awaitMade(t, writer, writer.Made.Load()+15)
			must(t, proxy.Restore())
		default:
			proxy.Drop()
		}
		w.awaitCurrent(t, fmt.Sprint("fault ", i), positions)
		if code, out := command(t, w.Env, "verify"); code > 1 {
			t.Errorf("after fault %d verify ends with %d:\n%s", i, code, out)
		}
	}
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	mustRun(t, w.Env, "verify")
}
