package e2e

import (
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// If only some namespaces are exported, run and check leave out resources that are in no namespace. If these were exported before,
// a record says that their streams ended.
func TestNamespacesLeaveOutClusterScopedResources(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	w.Writer(t, []Kind{ConfigMaps}).Fill(10)
	all := w.With("KUBECDC_RESOURCES", "namespaces")
	runFor(t, all, func() { awaitControls(t, w, 1, "namespaces", change.ControlSnapshotEnd) })
	before := len(namespaceRecords(w.Read(t), w.Prefix))
	if before == 0 {
		t.Fatal("there is no record of namespaces to begin with")
	}

	one := w.With("KUBECDC_RESOURCES", "configmaps,namespaces", "KUBECDC_NAMESPACES", "default")
	code, out := command(t, one, "check")
	if code != 0 || !strings.Contains(out, "1 to export") || !strings.Contains(out, "namespaces is left out") {
		t.Errorf("exporter check ends with %d and says\n%s", code, out)
	}
	runFor(t, one, func() {
		log := awaitControls(t, w, 1, "namespaces", change.ControlStreamEnd)
		if cause := log.ControlsOf("namespaces", change.ControlStreamEnd)[0].Cause; !strings.Contains(cause, "KUBECDC_NAMESPACES is default") {
			t.Errorf("the stream has ended because of %q", cause)
		}
		installCRD(t, w.Kube.Config, Widgets) // the set of served resources changes, so the selection is made again
		awaitControls(t, w, 1, "configmaps@default", change.ControlSnapshotEnd)
		log = w.Read(t)
		if after := len(namespaceRecords(log, w.Prefix)); after != before {
			t.Errorf("there are %d records of namespaces, and were %d", after, before)
		}
		if resumed := log.ControlsOf("namespaces", change.ControlStreamReselected); len(resumed) > 0 {
			t.Errorf("the stream goes on: %+v", resumed)
		}
	})
	// The name of a resource stands for its streams that have not ended.
	if out := mustRun(t, one, "pause", "configmaps", "--no-wait"); !strings.Contains(out, "pause configmaps@default") || strings.Contains(out, "pause configmaps\n") {
		t.Errorf("paused is %s", out)
	}
}

func namespaceRecords(log *Log, prefix string) (found []Record) {
	for _, r := range log.Records {
		if r.Resource(prefix) == "namespaces" {
			found = append(found, r)
		}
	}
	return found
}
