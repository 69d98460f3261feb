package e2e

import (
	"fmt"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

func awaitControls(t *testing.T, w *World, n int, stream change.StreamID, types ...change.ControlType) *Log {
	t.Helper()
	Await(t, fmt.Sprint(n, " records ", types, " of ", stream), func() (bool, error) {
		log := &Log{Controls: w.controls(t)}
		return len(log.ControlsOf(stream, types...)) >= n, nil
	})
	return w.Read(t)
}

// A CRD is removed while no exporter runs, and later exporters are killed while they record that. Each object ends once, with a
// tombstone, and the stream ends once. When the CRD exists again it has a new stream.
func TestARemovalThatNoExporterSawIsComplete(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Widgets}
	writer := w.Writer(t, kinds).Fill(60)
	env := w.With("KUBECDC_SLOTS", "2", "KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_BATCH_MAX_CHANGES", "10")
	runFor(t, env, func() { w.AwaitComplete(t, writer, kinds) })
	alive := len(w.Read(t).ByKey(w.Prefix, Widgets))

	RemoveWidgets(t, w.Kube.Config)
	for _, step := range []string{failpoint.Received + ":25", failpoint.Written + ":2", failpoint.RollingForward + ":1", failpoint.Committed + ":1"} {
		killedAt(t, env, step)
	}
	runFor(t, env, func() { awaitControls(t, w, 1, Widgets.Stream(), change.ControlStreamEnd) })
	log := w.Read(t)
	wantAllDeleted(t, w, log, alive)
	if ends := log.ControlsOf(Widgets.Stream(), change.ControlStreamEnd); len(ends) != 1 || !strings.Contains(ends[0].Cause, "removed from the API") {
		t.Errorf("the stream's end is recorded %d times: %+v", len(ends), ends)
	}

	InstallWidgets(t, w.Kube.Config)
	writer.Fill(5)
	runFor(t, env, func() { w.AwaitComplete(t, writer, kinds) })
	log = w.Read(t)
	if begins := log.ControlsOf(Widgets.Stream(), change.ControlSnapshotBegin); len(begins) != 2 {
		t.Errorf("the resource that is back does not begin with a snapshot: %+v", begins)
	}
	Judge(t, w.Kube, log, w.Prefix, []Kind{ConfigMaps}).Demand(t, 0)
	WantState(t, w, log, Widgets)
}

// wantAllDeleted demands one deletion of every widget, marked as inferred, with the last state as its before-image, and a
// tombstone. They must be the last records of the widget's key.
func wantAllDeleted(t *testing.T, w *World, log *Log, want int) {
	t.Helper()
	byKey := log.ByKey(w.Prefix, Widgets)
	if len(byKey) != want || want == 0 {
		t.Errorf("the log has %d widgets, want %d", len(byKey), want)
	}
	for key, records := range byKey {
		n := len(records)
		if n < 3 || records[n-1].Op != "" || records[n-2].Op != "d" || !records[n-2].Inferred {
			t.Errorf("%s does not end with a deletion and a tombstone: %+v", key, records)
			continue
		}
		if string(records[n-2].Before) != string(records[n-3].After) {
			t.Errorf("%s: the deletion's before is %s", key, records[n-2].Before)
		}
	}
	v := &Verdict{}
	for key, records := range byKey {
		v.InOrder(Widgets, key, records)
	}
	v.Demand(t, 0)
}

// forgetStreams runs exporter forget.
func forgetStreams(t *testing.T, env map[string]string, streams ...string) (code int, out string) {
	t.Helper()
	return command(t, env, append([]string{"forget"}, streams...)...)
}

// command runs a command of the exporter.
func command(t testing.TB, env map[string]string, args ...string) (code int, out string) {
	t.Helper()
	c := Command(t, withSettings(env, "KUBECDC_LISTEN", "off"), args...)
	text, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(text)
}

// A resource is deselected, and the log says so once. When it is selected again, its stream goes on, and changes in the meantime
// are recorded with their own revisions. After exporter forget the stream goes on as well, since the log remembers it.
func TestADeselectedStreamEndsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles}
	writer := w.Writer(t, kinds).Fill(10)
	both, one := w.With("KUBECDC_RESOURCES", Resources(kinds)), w.With("KUBECDC_RESOURCES", Resources([]Kind{Roles}))
	runFor(t, both, func() { w.AwaitComplete(t, writer, kinds) })
	for range 2 {
		writer.Run(40)
		runFor(t, one, func() {
			awaitControls(t, w, 1, ConfigMaps.Stream(), change.ControlStreamEnd)
			w.AwaitComplete(t, writer, []Kind{Roles})
		})
	}
	log := w.Read(t)
	ends := log.ControlsOf(ConfigMaps.Stream(), change.ControlStreamEnd)
	if len(ends) != 1 || !strings.Contains(ends[0].Cause, "KUBECDC_RESOURCES is "+Roles.ID()) || ends[0].ResourceVersion == "" {
		t.Errorf("the stream's end is recorded %d times: %+v", len(ends), ends)
	}
	runFor(t, both, func() {
		if code, out := forgetStreams(t, both, ConfigMaps.ID()); code != 2 || !strings.Contains(out, "has not ended") {
			t.Errorf("a stream that lives is forgotten: %d, %s", code, out)
		}
		w.AwaitComplete(t, writer, kinds)
	})
	log = w.Read(t)
	if resumed := log.ControlsOf(ConfigMaps.Stream(), change.ControlStreamReselected); len(resumed) != 1 || resumed[0].ResourceVersion != ends[0].ResourceVersion {
		t.Errorf("the stream ended at %s, and goes on: %+v", ends[0].ResourceVersion, resumed)
	}
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)

	runFor(t, one, func() {
		awaitControls(t, w, 2, ConfigMaps.Stream(), change.ControlStreamEnd)
		if code, out := forgetStreams(t, one, Roles.ID()); code != 2 || !strings.Contains(out, "has not ended") {
			t.Errorf("a stream that lives is forgotten: %d, %s", code, out)
		}
	})
	if code, out := forgetStreams(t, one); code != 0 || !strings.Contains(out, ConfigMaps.ID()) || strings.Contains(out, Roles.ID()) {
		t.Errorf("exporter forget lists, with %d:\n%s", code, out)
	}
	if code, out := forgetStreams(t, one, ConfigMaps.ID()); code != 0 {
		t.Errorf("exporter forget: %d, %s", code, out)
	}
	runFor(t, both, func() { w.AwaitComplete(t, writer, kinds) })
	runFor(t, one, func() {
		awaitControls(t, w, 3, ConfigMaps.Stream(), change.ControlStreamEnd)
		if code, out := forgetStreams(t, one, ConfigMaps.ID()); code != 0 || !strings.Contains(out, ConfigMaps.ID()+": forgotten") {
			t.Errorf("a running exporter forgets: %d, %s", code, out)
		}
		if code, out := forgetStreams(t, one); code != 0 || !strings.Contains(out, "no stream has ended") {
			t.Errorf("exporter forget lists, with %d:\n%s", code, out)
		}
	})
	runFor(t, both, func() { w.AwaitComplete(t, writer, kinds) })
	log = w.Read(t)
	if begins := log.ControlsOf(ConfigMaps.Stream(), change.ControlSnapshotBegin); len(begins) != 1 {
		t.Errorf("after it was forgotten the stream begins anew: %+v", begins)
	}
	if resumed := log.ControlsOf(ConfigMaps.Stream(), change.ControlStreamReselected); len(resumed) != 3 {
		t.Errorf("the stream goes on %d times: %+v", len(resumed), resumed)
	}
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
}
