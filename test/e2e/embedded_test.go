package e2e

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"kubecdc/internal/failpoint"
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
	go func() { writer.Until(stop, 200); close(done) }()
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
