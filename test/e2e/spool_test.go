package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/status"
	"kubecdc/test/servers"
)

// The broker is away while etcd is compacted: the exporter reads on, and writes everything once the broker is back.
func TestTheSinkIsAwayForLongerThanEtcdRemembers(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane := w.Kafka.Lane(t)
	env := apart(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address))
	writer := w.Writer(t, Kinds)
	writer.Fill(20)
	e := StartExporter(t, "the exporter", env)
	e.AwaitReady(t)
	writer.Run(100)
	w.AwaitComplete(t, writer, Kinds)
	lane.Cut()
	writer.Run(100)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	for range 3 {
		writer.Run(100)
		e.awaitSpooled(t, writer.Marks(Kinds))
		must(t, w.Kube.Compact(context.Background(), 0))
	}
	e.awaitWrong(t, "slot 0: the sink does not take batches: spooling, ", "0% full")
	e.AwaitReady(t)
	e.Kill()
	e = StartExporter(t, "the next", env)
	writer.Run(100)
	e.awaitSpooled(t, writer.Marks(Kinds))
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, lane.Restore())
	writer.Run(100)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	e.awaitLogged(t, "the sink has all that was in the spool")
}

// awaitSpooled waits until the exporter has read up to these versions, and made it durable.
func (e *Exporter) awaitSpooled(t testing.TB, want map[change.StreamID]change.ResourceVersion) {
	t.Helper()
	Await(t, e.name+" to have read all", func() (bool, error) {
		text, err := e.get("/status.json")
		if err != nil {
			return false, nil
		}
		var report status.Status
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return false, err
		}
		read := 0
		for _, s := range report.Streams {
			id := change.NewStream(change.ResourceOf(change.StreamID(s.Resource)), s.Namespace, "", "").ID()
			if s.Position.Compare(want[id]) >= 0 && want[id] != "" {
				read++
			}
		}
		return read == len(want), nil
	})
}

// apart gives an exporter a spool of its own, as on a machine of its own.
func apart(t testing.TB, env map[string]string) map[string]string {
	t.Helper()
	return with(env, "KUBECDC_SPOOL_DIR", t.TempDir())
}

// The sink is away in turn, and the process is killed at each step: while it spools, while it forwards, and when it writes to the sink again.
// Each time another one goes on. In the end the log is as if nothing had been.
func TestSlowKilledAtEachStepWithASpool(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane := w.Kafka.Lane(t)
	env := apart(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address))
	writer := w.Writer(t, Kinds)
	writer.Fill(20)
	begin := func(points string) {
		e := StartExporter(t, "is killed at "+points, with(env, "KUBECDC_FAILPOINT", points))
		e.AwaitReady(t)
		w.AwaitComplete(t, writer, Kinds)
		lane.Cut()
		stop := writer.Start(20)
		e.Wait(t)
		stop()
	}
	begin(failpoint.Spooling + ":1") // The next one has no spool yet, and waits for the sink.
	must(t, lane.Restore())
	for _, points := range []string{failpoint.Spooled + ":1", failpoint.Spooling + ":3", failpoint.Spooling + ":3," + failpoint.DataProduced + ":1",
		failpoint.Spooled + ":3"} {
		begin(points)
		stop := writer.Start(20)
		e := StartExporter(t, "spools after "+points, env)
		e.AwaitReady(t)
		e.awaitMetric(t, "kubecdc_spool_batches", "", 10)
		stop()
		e.awaitSpooled(t, writer.Marks(Kinds))
		must(t, w.Kube.Compact(context.Background(), 0))
		stop = writer.Start(20)
		e.Kill()
		for _, step := range []string{failpoint.Spooling, failpoint.Spooled} {
			killedAt(t, env, step+":1")
		}
		must(t, lane.Restore())
		for _, step := range []string{failpoint.Forwarding, failpoint.Forwarded, failpoint.DataProduced, failpoint.ControlWritten, failpoint.Committed,
			failpoint.Emptied, failpoint.Removed} {
			killedAt(t, env, step+":1")
		}
		stop()
	}
	e := StartExporter(t, "the last", env)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	e.AwaitReady(t)
}

// A spool that is full stops the reading, and says so. Once the sink is back, all that it missed is there.
func TestASpoolIsFull(t *testing.T) {
	t.Parallel()
	kinds := []Kind{ConfigMaps}
	w := NewWorld(t)
	lane := w.Kafka.Lane(t)
	env := apart(t, w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_KAFKA_BROKERS", lane.Address, "KUBECDC_SPOOL_SIZE", "256KiB"))
	writer := w.Writer(t, kinds)
	e := StartExporter(t, "the exporter", env)
	e.AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	lane.Cut()
	flood(t, w.Kube.Config, 200, 10_000)
	e.awaitWrong(t, "slot 0: the sink does not take batches: nothing is read, since the spool is full")
	if e.Ready() {
		t.Error("it is ready, and reads nothing")
	}
	must(t, lane.Restore())
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.AwaitReady(t)
}
