package e2e

import (
	"context"
	"testing"

	"kubecdc/test/servers"
)

// This is the main job, and everything dies once. The exporter gets kill -9 during the snapshot and during the watch. The
// broker and Postgres are restarted, and the API server is restarted with unseen changes. Then the topics must hold every change
// once, in order, and replay into the cluster's state.
func TestSlowEverythingDiesOnceAndNothingIsLost(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewFragileWorld(t)
	writer := w.Writer(t, Kinds)
	writer.Pad = 2000
	writer.Fill(160)
	writer.Run(200)

	e := StartExporter(t, "the first", w.Env)
	Await(t, "the snapshot to be under way", func() (bool, error) {
		n := len(ReadLog(t, w.Kafka.Brokers, w.Prefix).Records)
		return n > 0, nil
	})
	e.Kill()
	writer.Run(100)
	e = StartExporter(t, "the second", w.Env).AwaitReady(t)

	stop := writer.Start(150)
	ctx := context.Background()
	awaitMade(t, writer, 600)
	e.Kill()
	e = StartExporter(t, "the third", w.Env)
	awaitMade(t, writer, 1000)
	must(t, w.Kafka.Restart(ctx))
	awaitMade(t, writer, 1400)
	must(t, w.Postgres.Restart(ctx))
	awaitMade(t, writer, 1700)
	e.Kill()
	awaitMade(t, writer, 2000)
	must(t, w.Kube.RestartAPIServer(ctx))
	e = StartExporter(t, "the fourth", w.Env)
	awaitMade(t, writer, 2400)
	stop()

	log := w.AwaitComplete(t, writer, Kinds)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	e.stop(t)
}

func awaitMade(t testing.TB, w *Writer, n int64) {
	t.Helper()
	Await(t, "the writer", func() (bool, error) { return w.Made.Load() >= n, nil })
}
