package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// must0 runs a command that has to succeed.
func must0(t testing.TB, env map[string]string, args ...string) string {
	t.Helper()
	code, out := command(t, env, args...)
	if t.Logf("exporter %s: %s", strings.Join(args, " "), out); code != 0 {
		t.Fatalf("the exit code is %d", code)
	}
	return out
}

// A stream that a user pauses is not read, in another process too, and others are. Resumed it goes on where it was: nothing is
// lost, and nothing there twice.
func TestAPausedStreamStaysPausedOverRestarts(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds)
	writer.Run(40)
	e := StartExporter(t, "the exporter", w.Env)
	e.AwaitReady(t)
	writer.Run(40)
	must0(t, w.Env, "pause", ConfigMaps.ID())
	paused := w.Read(t).controlsOf(ConfigMaps.Stream(), change.ControlStreamPaused)
	if len(paused) != 1 || paused[0].ResourceVersion == "" {
		t.Fatalf("stream-paused records: %+v", paused)
	}
	writer.Run(40)
	w.AwaitComplete(t, writer, []Kind{Roles})
	e.Kill()
	e = StartExporter(t, "the next exporter", w.Env)
	e.AwaitReady(t)
	e.awaitRefused(t, "stream configmaps: paused by signal ", "exporter resume configmaps")
	if n := e.Metric(t, "kubecdc_stream_state", `state="paused"`); n != 1 {
		t.Errorf("the metric does not say that it is paused: %v", n)
	}
	w.AwaitComplete(t, writer, []Kind{Roles})
	log := w.Read(t)
	for key, records := range log.ByKey(w.Prefix, ConfigMaps) {
		if last := records[len(records)-1]; last.Version.Compare(paused[0].ResourceVersion) > 0 {
			t.Errorf("%s has a record at %s, after the pause at %s", key, last.Version, paused[0].ResourceVersion)
		}
	}
	if out := must0(t, w.Env, "signals", "list"); !strings.Contains(out, "pause") || !strings.Contains(out, "paused") {
		t.Errorf("the list lacks the pause:\n%s", out)
	}
	must0(t, w.Env, "resume", ConfigMaps.ID())
	log = w.AwaitComplete(t, writer, kinds)
	if resumed := log.controlsOf(ConfigMaps.Stream(), change.ControlStreamResumed); len(resumed) != 1 || resumed[0].ResourceVersion != paused[0].ResourceVersion {
		t.Errorf("it was paused at %s, and resumes: %+v", paused[0].ResourceVersion, resumed)
	}
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	if code, out := command(t, w.Env, "resume", ConfigMaps.ID()); code != 1 || !strings.Contains(out, "is not paused") {
		t.Errorf("a stream that is not paused is resumed: %d, %s", code, out)
	}
	if code, out := command(t, w.Env, "pause", "configmap"); code != 2 || !strings.Contains(out, "did you mean configmaps?") {
		t.Errorf("an unknown stream is paused: %d, %s", code, out)
	}
	e.Signal(syscall.SIGTERM)
	if code := e.Wait(t, 25*time.Second); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
}
