package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
)

// Without KUBECDC_RESOURCES everything is exported but Leases. A log that has them from an earlier release, or from *, gets a record of
// their end and retains what it has. With * they go on.
func TestLeasesAreExportedOnlyIfAsked(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	client, err := kubernetes.NewForConfig(w.Kube.Config)
	must(t, err)
	leases := client.CoordinationV1().Leases("default")
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	must(t, err)
	writer := w.Writer(t, []Kind{ConfigMaps})
	renew := func() *Log {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		lease, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		must(t, err)
		return w.AwaitComplete(t, writer, []Kind{ConfigMaps})
	}
	all := w.With("KUBECDC_RESOURCES", "*")
	defaults := w.With()
	delete(defaults, "KUBECDC_RESOURCES")
	stream := change.StreamID("leases.coordination.k8s.io")
	await := func() {
		w.AwaitMarks(t, map[change.StreamID]change.ResourceVersion{stream: change.ResourceVersion(lease.ResourceVersion)})
	}
	runFor(t, all, func() { renew(); await() })
	seen := lease.ResourceVersion
	runFor(t, defaults, func() {
		awaitControls(t, w, 1, stream, change.ControlStreamEnd)
		renew()
	})
	log := w.Read(t)
	if ends := log.ControlsOf(stream, change.ControlStreamEnd); !strings.Contains(ends[0].Cause, "KUBECDC_RESOURCES is *,!leases.coordination.k8s.io") {
		t.Errorf("the end of the stream says %q", ends[0].Cause)
	}
	if slices.ContainsFunc(log.Records, func(r Record) bool { return string(r.Version) == lease.ResourceVersion }) {
		t.Error("a Lease is exported by default")
	}
	if out := mustRun(t, defaults, "history", "lease/n1", "-n", "default", "-o", "name"); !strings.Contains(out, seen) {
		t.Errorf("the log has lost what it had of Leases: %s", out)
	}
	runFor(t, all, await)
}
