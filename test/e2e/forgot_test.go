package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"kubecdc/test/servers"
)

// Postgres goes back to an earlier state under a live exporter, as in a failover to a standby that was behind. The log has the
// forgotten changes, from the position to which Postgres goes back. No before-image comes from the forgotten state. In the second
// round the watches are cut off as well, and are too old for a new API server, so that each stream lists.
func TestSlowPostgresForgets(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Deployments, Roles, Widgets}
	writer, others := w.Writer(t, kinds), w.Writer(t, []Kind{Secrets})
	writer.Run(40)
	// No connection lives long enough to be broken when the server is replaced, and few bodies are remembered.
	e := StartExporter(t, "an exporter", w.With("KUBECDC_LEASE_DURATION", "10m", "KUBECDC_RESOURCES", Resources(kinds),
		"KUBECDC_BEFORE", "full", "KUBECDC_BATCH_MAX_BYTES", "64KiB", "KUBECDC_BUFFER_BYTES", "64KiB",
		"KUBECDC_CHECKPOINT", w.Postgres.URL+"&pool_max_conn_lifetime=100ms")).AwaitReady(t)
	for round, gap := range []bool{false, true} {
		writer.Run(50)
		w.AwaitComplete(t, writer, kinds)
		must(t, w.Postgres.Backup(context.Background()))
		writer.Run(50)
		w.AwaitComplete(t, writer, kinds)
		e.Signal(syscall.SIGSTOP)
		must(t, w.Postgres.Restore(context.Background()))
		if gap {
			others.Run(20) // so that the positions are older than all revisions that the next API server knows
			w.Kube.API.Kill()
			must(t, w.Kube.API.Start(context.Background()))
			writer.Run(50)
		}
		e.Signal(syscall.SIGCONT)
		writer.Run(50)
		Await(t, "the exporter to start over", func() (bool, error) {
			return strings.Count(e.Tail(1<<20), "starting the next one from what is durable") > round, nil
		})
		w.AwaitComplete(t, writer, kinds)
	}
	Judge(t, w.Kube, w.Read(t), w.Prefix, kinds).Demand(t, 0)
	if !strings.Contains(e.Tail(1<<20), "the checkpoint has forgotten batches") { // once a broken connection may have come first
		t.Error("it did not say why")
	}
	e.stop(t)
}
