package e2e

import (
	"maps"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// The number of slots changes from 1 to 4 to 2 while changes are made, and every process but the last is killed.
func TestSlowTheNumberOfSlotsChangesAndNothingIsLost(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(20)
	one, four, two := w.With("KUBECDC_SLOTS", "1"), w.With("KUBECDC_SLOTS", "4"), w.With("KUBECDC_SLOTS", "2")
	stop := writer.Start(150)
	killedAt(t, one, failpoint.Written+":60")        // leaves a tail
	killedAt(t, four, failpoint.RollingForward+":1") // in the old layout
	killedAt(t, four, failpoint.ControlWritten+":1") // the first record of the new layout
	killedAt(t, four, failpoint.ControlWritten+":3")
	killedAt(t, four, failpoint.Written+":1") // the first batch after the change
	killedAt(t, four, failpoint.RollingForward+":1")
	e := StartExporter(t, "with 4 slots", four).AwaitReady(t)
	awaitMade(t, writer, writer.Made.Load()+200)

	standby := StartExporter(t, "with 2 slots", two).AwaitReady(t)
	standby.awaitLogged(t, "KUBECDC_SLOTS is 2 here, but 4 in the running replicas")
	awaitMade(t, writer, writer.Made.Load()+200)
	e.Kill()
	readLeases(t, w).await("kill -9 of the one with 4", 2, standby)
	awaitMade(t, writer, writer.Made.Load()+200)
	stop()
	log := w.AwaitComplete(t, writer, Kinds)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	var layouts []string
	for _, c := range log.Controls {
		if c.Type == change.ControlLayout {
			layouts = append(layouts, c.Cause)
		}
	}
	if text := strings.Join(layouts, "\n"); !strings.Contains(text, "was 1 and is 4") || !strings.Contains(text, "was 4 and is 2") {
		t.Errorf("the control topic says %q", text)
	}
	standby.stop(t)
	compareMirror(t, w)
}

// killedAt runs an exporter that kills itself at a step.
func killedAt(t *testing.T, env map[string]string, step string) {
	t.Helper()
	env = maps.Clone(env)
	env["KUBECDC_FAILPOINT"] = step
	StartExporter(t, "killed at "+step, env).Wait(t)
}
