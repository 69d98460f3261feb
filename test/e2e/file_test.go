package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/change"
)

// While an exporter with a checkpoint in an SQLite file runs, every command works as with Postgres. The file has one owner, which
// loses it by its death. None of that costs a change.
func TestARunningExporterWithAFileIsAsked(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
	writer := w.Writer(t, kinds).Fill(60)
	e := StartExporter(t, "the owner", w.Env).AwaitReady(t)
	stop := writer.Start(50)
	aFileIsAsked(t, w)
	stop()
	log := w.AwaitComplete(t, writer, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	e.awaitCheckpoint(t)

	live := liveIn(log, w)
	stale := w.plant(t, live[0], "u", "", "2")
	wantOnly(t, w.verified(t, 1), "topic stale "+stale)
	wantOnly(t, w.verified(t, 0, "--repair"))
	if out := mustRun(t, w.Env, "verify"); strings.Count(out, "inventory") != len(kinds) {
		t.Errorf("verify left the inventory out:\n%s", out)
	}

	other := StartExporter(t, "another one", w.Env)
	if code := other.Wait(t); code != 1 || !strings.Contains(other.Tail(2000), "in use by another process") {
		t.Errorf("another owner exits with %d:\n%s", code, other.Tail(2000))
	}
	e.Kill()
	e = StartExporter(t, "the next owner", w.With("KUBECDC_RESOURCES", ConfigMaps.ID())).AwaitReady(t)
	anEndedStreamIsForgotten(t, w)
	writer.Run(20)
	w.AwaitComplete(t, writer, []Kind{ConfigMaps})
	e.stop(t)
}

// aFileIsAsked sends users' requests to the exporter while it commits.
func aFileIsAsked(t *testing.T, w *World) {
	t.Helper()
	Await(t, "a checkpoint that knows both streams, and follows the log", func() (bool, error) {
		code, out := command(t, w.Env, "check")
		return code == 0 && strings.Contains(out, ", 2 streams known"), nil
	})
	wantLogSize(t, w, `log: \d+ \wiB\n  about \d+ \wiB: \w+\n`)
	if out := mustRun(t, w.Env, "snapshot", ConfigMaps.ID()); !strings.Contains(out, " 0 changes, of a list of ") {
		t.Errorf("where nothing differs the answer is %s", out)
	}
	mustRun(t, w.Env, "pause", Roles.ID())
	if code, out := command(t, w.Env, "status"); code != 1 || !strings.Contains(out, "stream "+Roles.ID()+": paused by signal") {
		t.Errorf("the status is %d:\n%s", code, out)
	}
	mustRun(t, w.Env, "resume", Roles.ID())
	wantOnly(t, w.verified(t, 0))
	if n := len(asJSON[[]listedCheckpoint](t, succeeds(t, w.Env, "checkpoints", "list", "-o", "json"))); n == 0 {
		t.Error("the checkpoints are not listed")
	}
	for _, s := range w.signals(t) {
		if s.State != change.SignalCompleted {
			t.Errorf("signal %+v", s)
		}
	}
}

// anEndedStreamIsForgotten demands that the exporter forgets it, since it has the slot.
func anEndedStreamIsForgotten(t *testing.T, w *World) {
	t.Helper()
	Await(t, "the stream to end", func() (bool, error) {
		return strings.Contains(mustRun(t, w.Env, "forget"), Roles.ID()), nil
	})
	mustRun(t, w.Env, "forget", Roles.ID())
	all := w.signals(t)
	if last := all[len(all)-1]; last.Kind != change.SignalForget || last.State != change.SignalCompleted {
		t.Errorf("the last signal is %+v", last)
	}
	if out := mustRun(t, w.Env, "forget"); strings.Contains(out, Roles.ID()) {
		t.Errorf("it is still there:\n%s", out)
	}
}
