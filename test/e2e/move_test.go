package e2e

import (
	"context"
	"testing"
)

// A log is moved as docs/operations.md describes. A second exporter with its own checkpoint writes the new log, and the first
// exporter is stopped later. Neither disturbs the other, and the new log has the cluster's state.
func TestALogIsMoved(t *testing.T) {
	t.Parallel()
	kinds := []Kind{ConfigMaps}
	w := NewWorld(t)
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	database, err := w.Postgres.CreateDatabase(context.Background(), "moved")
	must(t, err)
	moved := *w
	moved.Prefix = w.Prefix + "-moved"
	moved.Env = w.With("KUBECDC_KAFKA_TOPIC_PREFIX", moved.Prefix, "KUBECDC_CHECKPOINT", database)

	writer := w.Writer(t, kinds)
	writer.Run(40)
	first := StartExporter(t, "the first", w.Env).AwaitReady(t)
	StartExporter(t, "the second", moved.Env).AwaitReady(t)
	writer.Run(40)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	first.stop(t)
	writer.Run(40)
	WantState(t, &moved, moved.AwaitComplete(t, writer, kinds), ConfigMaps)
}
