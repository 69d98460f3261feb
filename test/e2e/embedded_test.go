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

// With the log in a file, under kill -9 at each step and at random moments: the file holds etcd's history once and in order, and the
// cluster's state, and is asked for both while it is written.
func TestTheEmbeddedLogKeepsEveryChangeOnce(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	InstallWidgets(t, w.Kube.Config)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	writer, random := NewWriter(t, w.Kube.Config, seed, Kinds), rand.New(rand.NewPCG(seed, 4))
	writer.Fill(30)
	killedAt(t, w.Env, failpoint.Written+":2") // in the snapshot
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { writer.Until(stop, 60); close(done) }()
	for _, step := range []string{failpoint.RollingForward, failpoint.Received, failpoint.Collected, failpoint.Prepared, failpoint.Written, failpoint.RollingForward, failpoint.Committed} {
		killedAt(t, w.Env, step+":1")
	}
	for range 2 {
		e := StartExporter(t, "killed at a random moment", w.Env)
		e.AwaitReady(t)
		awaitMade(t, writer, writer.Made.Load()+20+random.Int64N(60))
		e.Kill()
	}
	e := StartExporter(t, "the last", w.Env)
	e.AwaitReady(t)
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
	awaitMade(t, writer, writer.Made.Load()+100)
	close(stop)
	<-done
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	v, objects := &Verdict{}, w.readFileObjects(t, Kinds)
	for _, kind := range Kinds {
		v.finalState(t, w.Kube, kind, objects.ByKey(w.Prefix, kind))
	}
	v.Changes = len(objects.Records)
	v.Demand(t, 0)
	e.Signal(syscall.SIGTERM)
	if code := e.Wait(t); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
}

// At random moments the exporter dies, at a step or anywhere, is suspended, or cut off from the API server, which dies too: the log in
// the file has etcd's history once and in order.
func TestChaosWithAnEmbeddedLog(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	InstallWidgets(t, w.Kube.Config)
	seed := chaosSeed(t)
	random := rand.New(rand.NewPCG(seed, 3))
	writer := NewWriter(t, w.Kube.Config, seed, Kinds)
	writer.Run(100)
	proxy, err := servers.NewProxy(w.Kube.Address)
	must(t, err)
	t.Cleanup(func() { proxy.Close() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, w.Kube.WriteKubeconfig(kubeconfig, proxy.Address, ""))
	r := startReplica(t, "the exporter", w.With("KUBECONFIG", kubeconfig, "KUBECDC_PROOF_INTERVAL", "2s"))
	t.Cleanup(r.end)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { writer.Until(stop, 30); close(done) }()
	w.awaitProgress(t, "the start")
	for i := range chaosFaults(t, 12) {
		switch random.IntN(6) {
		case 0:
			r.exporter().Kill()
		case 1:
			r.restartWith("KUBECDC_FAILPOINT", failpoint.All[random.IntN(len(failpoint.All))]+":1")
		case 2:
			e := r.exporter()
			e.Signal(syscall.SIGSTOP)
			awaitMade(t, writer, writer.Made.Load()+30)
			e.Signal(syscall.SIGCONT)
		case 3:
			w.Kube.KillAPIServer()
			must(t, w.Kube.StartAPIServer(context.Background()))
		case 4:
			proxy.Cut()
			awaitMade(t, writer, writer.Made.Load()+30)
			must(t, proxy.Restore())
		default:
			proxy.Drop()
		}
		w.awaitProgress(t, fmt.Sprint("fault ", i))
		if code, out := command(t, w.Env, "verify"); code > 1 {
			t.Errorf("after fault %d verify ends with %d:\n%s", i, code, out)
		}
	}
	close(stop)
	<-done
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	mustRun(t, w.Env, "verify")
}

// awaitProgress waits until every stream in the file is at what the cluster is at now.
func (w *World) awaitProgress(t *testing.T, after string) {
	t.Helper()
	revision, err := w.Kube.Revision(context.Background())
	must(t, err)
	Await(t, "all streams to be current after "+after, func() (bool, error) {
		left := map[change.StreamID]bool{}
		for _, kind := range Kinds {
			left[kind.Stream()] = true
		}
		for _, c := range w.fileControls(t) {
			for _, p := range c.Positions {
				if p.ResourceVersion.Compare(change.VersionOf(uint64(revision))) >= 0 {
					delete(left, p.Stream)
				}
			}
		}
		return len(left) == 0, nil
	})
}
