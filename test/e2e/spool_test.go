package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/status"
	"kubecdc/test/servers"
)

// withSpool runs a test with Kafka and with Postgres, behind a proxy. The exporter has a spool.
func withSpool(t *testing.T, test func(t *testing.T, w *World, sink *servers.Proxy, env map[string]string)) {
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		w := NewWorld(t)
		lane := w.Kafka.Lane(t)
		test(t, w, lane, ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address)))
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		w := NewPostgresWorld(t, servers.PostgresOptions{})
		w.separateCheckpoint(t)
		proxies, env := w.Proxied(t)
		test(t, w, proxies["sink"], ownSpool(t, env))
	})
}

// The sink is away while etcd is compacted. The exporter reads on, also after a kill, and writes everything once the sink is back.
func TestTheSinkIsAwayForLongerThanEtcdRemembers(t *testing.T) {
	withSpool(t, outlasted)
}

func outlasted(t *testing.T, w *World, sink *servers.Proxy, env map[string]string) {
	writer := w.Writer(t, Kinds).Fill(20)
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	writer.Run(100)
	w.AwaitComplete(t, writer, Kinds)
	sink.Cut()
	writer.Run(100)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	for range 3 {
		writer.Run(100)
		e.awaitSpooled(t, writer.Marks(Kinds))
		must(t, w.Kube.Compact(context.Background(), 0))
	}
	e.awaitWrong(t, "sink: slot 0: the sink does not take batches: spooling, ", "0% full: ")
	e.AwaitReady(t)
	e.Kill()
	e = StartExporter(t, "the next", env)
	writer.Run(100)
	e.awaitSpooled(t, writer.Marks(Kinds))
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, sink.Restore())
	writer.Run(100)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	e.awaitLogged(t, "the sink has all that was in the spool")
}

// awaitSpooled waits until the exporter has made everything up to these versions durable.
func (e *Exporter) awaitSpooled(t testing.TB, want map[change.StreamID]change.ResourceVersion) {
	t.Helper()
	Await(t, e.name+" to have read all", func() (bool, error) { return e.hasRead(want) })
}

// hasRead reports whether everything up to these versions is durable, in the log or in a spool.
func (e *Exporter) hasRead(want map[change.StreamID]change.ResourceVersion) (bool, error) {
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
}

// The sink goes away while nothing is written, or at any step of a batch. It is cut off, or killed. The exporter reads on into a spool
// each time, also if something else ends its session meanwhile.
func TestSlowASpoolBeginsAtAnyTime(t *testing.T) {
	servers.Slow(t)
	steps := []string{"", failpoint.Collected, failpoint.Prepared, failpoint.DataProduced, failpoint.ControlWritten, failpoint.Written}
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		w := NewFragileWorld(t)
		proxies, env := w.Proxied(t)
		lane, writer := proxies["kafka"], beginOutages(t, w)
		env = ownSpool(t, withSettings(env, "KUBECDC_RESOURCES", Resources(writer.kinds)))
		for _, step := range append(steps, failpoint.TxnAdded) {
			w.goesAway(t, writer, env, step, lane.Cut, lane.Restore)
			w.goesAway(t, writer, env, step, w.Kafka.Kill, func() error { return w.Kafka.Start(t.Context()) })
		}
		e := StartExporter(t, "whose lease ends", env).AwaitReady(t)
		w.AwaitComplete(t, writer, writer.kinds)
		lane.Cut()
		e.awaitWrong(t, "sink: no answer since") // by then the checkpoint has all that the sink has
		proxies["postgres"].Cut()
		e.awaitWrong(t, "checkpoint: slot 0: ", "acquire slot 0") // its lease has ended
		must(t, proxies["postgres"].Restore())
		w.outlastHistory(t, writer, e, lane.Restore)
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		w := NewPostgresWorld(t, servers.PostgresOptions{Fsync: true})
		w.separateCheckpoint(t)
		proxies, env := w.Proxied(t)
		sink, writer := proxies["sink"], beginOutages(t, w)
		env = ownSpool(t, withSettings(env, "KUBECDC_RESOURCES", Resources(writer.kinds)+",*."+Widgets.GVR.Group))
		for _, step := range []string{"", failpoint.Collected, failpoint.Prepared, failpoint.Written} {
			w.goesAway(t, writer, env, step, sink.Cut, sink.Restore)
			w.goesAway(t, writer, env, step, w.Postgres.Kill, func() error { return w.Postgres.Start(t.Context()) })
		}
		e := StartExporter(t, "that meets a new resource", env).AwaitReady(t)
		w.AwaitComplete(t, writer, writer.kinds)
		sink.Cut()
		InstallWidgets(t, w.Kube.Config)
		e.awaitLogged(t, "the session failed")
		w.outlastHistory(t, writer, e, sink.Restore)
		writer.kinds = Kinds
		writer.Run(50)
		Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	})
}

func beginOutages(t *testing.T, w *World) *Writer {
	t.Helper()
	writer := w.Writer(t, slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k == Widgets })).Fill(20)
	return writer
}

// goesAway starts a process, takes the sink away at a step or between two batches, and mends it.
func (w *World) goesAway(t *testing.T, writer *Writer, env map[string]string, step string, away func(), mend func() error) {
	t.Helper()
	began := time.Now()
	e := StartExporter(t, "meets an outage at "+step, withSettings(env, "KUBECDC_FAILPOINT", step+":3:stop"))
	if step == "" {
		e.AwaitReady(t)
		w.AwaitComplete(t, writer, writer.kinds)
		away()
	} else {
		stop := writer.Start(20)
		e.awaitSuspended(t, step)
		away()
		e.Signal(syscall.SIGCONT)
		stop()
	}
	w.outlastHistory(t, writer, e, mend)
	e.stop(t)
	t.Logf("away at %q: mended after %s", step, time.Since(began).Round(time.Second))
}

// outlastHistory makes changes while the sink is away, lets etcd forget them, and mends the sink.
func (w *World) outlastHistory(t *testing.T, writer *Writer, e *Exporter, mend func() error) {
	t.Helper()
	writer.Run(50)
	e.awaitSpooled(t, writer.Marks(writer.kinds))
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, mend())
	Judge(t, w.Kube, w.AwaitComplete(t, writer, writer.kinds), w.Prefix, writer.kinds).Demand(t, 0)
}

// ownSpool gives an exporter its own spool, as on another machine.
func ownSpool(t testing.TB, env map[string]string) map[string]string {
	t.Helper()
	return withSettings(env, "KUBECDC_SPOOL_DIR", t.TempDir())
}

// The sink is away again and again. The process is killed at each step while it spools, while it forwards, and when it writes to
// the sink again. Each time another process goes on. In the end the log is as if the sink had never been away.
func TestSlowKilledAtEachStepWithASpool(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane := w.Kafka.Lane(t)
	env := ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address))
	writer := w.Writer(t, Kinds).Fill(20)
	begin := func(points string) {
		e := StartExporter(t, "reads all before it is killed at "+points, env).AwaitReady(t)
		w.AwaitComplete(t, writer, Kinds)
		e.Kill()
		e = StartExporter(t, "is killed at "+points, withSettings(env, "KUBECDC_FAILPOINT", points))
		Await(t, "it to be ready", func() (bool, error) { return e.Ready() || e.ended() != nil, nil }) // a slow sink's batch is spooled before
		lane.Cut()
		stop := writer.Start(20)
		e.Wait(t)
		stop()
	}
	begin(failpoint.Spooling + ":1") // the next one has no spool yet, and waits for the sink
	must(t, lane.Restore())
	for _, points := range []string{failpoint.Spooled + ":1", failpoint.Spooling + ":3", failpoint.Spooling + ":3," + failpoint.DataProduced + ":1",
		failpoint.Spooled + ":3"} {
		begin(points)
		stop := writer.Start(20)
		e := StartExporter(t, "spools after "+points, env).AwaitReady(t)
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

// With at-least-once delivery the process is killed at each step while it forwards. The log lacks nothing.
func TestSlowAtLeastOnceWithASpool(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane := w.Kafka.Lane(t)
	env := ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address, "KUBECDC_KAFKA_DELIVERY", "at-least-once"))
	writer := w.Writer(t, Kinds).Fill(20)
	e := StartExporter(t, "the first", env).AwaitReady(t)
	w.AwaitComplete(t, writer, Kinds)
	lane.Cut()
	stop := writer.Start(20)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitMetric(t, "kubecdc_spool_batches", "", 10)
	stop()
	e.awaitSpooled(t, writer.Marks(Kinds))
	must(t, w.Kube.Compact(context.Background(), 0))
	e.Kill()
	must(t, lane.Restore())
	stop = writer.Start(20)
	for _, step := range []string{failpoint.Forwarding, failpoint.DataProduced, failpoint.ControlWritten, failpoint.Written, failpoint.Forwarded,
		failpoint.Committed, failpoint.Emptied, failpoint.Removed} {
		killedAt(t, env, step+":1")
	}
	StartExporter(t, "the last", env).AwaitReady(t)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, int(writer.Made.Load()))
}

// The sink answers, and takes longer for a batch than the limit after which it counts as away. It gets all of the spool while
// changes are read.
func TestSlowTheSinkIsTooSlow(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	kinds := []Kind{ConfigMaps}
	w := NewWorld(t)
	lane := w.Kafka.Lane(t)
	e := StartExporter(t, "the exporter", ownSpool(t, w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_KAFKA_BROKERS", lane.Address,
		"KUBECDC_KAFKA_COMPRESSION", "none")))
	writer := w.Writer(t, kinds)
	e.AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	lane.Slow(150_000) // a batch of 4 MiB takes half a minute
	flood(t, w.Kube.Config, 400, 10_000)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitSpooled(t, writer.Marks(kinds))
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.awaitLogged(t, "the sink has all that was in the spool")
}

// If the spool is full, the exporter stops reading, and says so. Once the sink is back, it gets all changes.
func TestASpoolIsFull(t *testing.T) {
	t.Parallel()
	kinds := []Kind{ConfigMaps}
	w := NewWorld(t)
	lane := w.Kafka.Lane(t)
	env := ownSpool(t, w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_KAFKA_BROKERS", lane.Address, "KUBECDC_SPOOL_SIZE", "256KiB"))
	writer := w.Writer(t, kinds)
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	lane.Cut()
	flood(t, w.Kube.Config, 200, 10_000)
	e.awaitWrong(t, "sink: slot 0: the sink does not take batches: nothing is read, since the spool is full")
	if e.Ready() {
		t.Error("it is ready, and reads nothing")
	}
	must(t, lane.Restore())
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.AwaitReady(t)
}

// The sink refuses one of the resources in a spool, and gets all others. The refused one goes on from the checkpoint once its
// records are accepted, even if another process has forwarded the rest.
func TestSlowARefusedResourceIsLeftOutOfTheSpool(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w, ctx, well, all := NewRuledWorld(t), context.Background(), []Kind{Deployments, Roles}, []Kind{Deployments, Roles, ConfigMaps}
	w.grant(t, kadm.OpRead)
	env := ownSpool(t, w.With("KUBECDC_RESOURCES", Resources(all)))
	refused := servers.KafkaRule{Topic: w.Prefix + "." + ConfigMaps.ID(), Deny: true, Operations: []kadm.ACLOperation{kadm.OpWrite}}
	writer := w.Writer(t, all)
	writer.Run(40)
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	w.AwaitComplete(t, writer, all)
	must(t, w.Kafka.Rule(ctx, refused))
	w.Kafka.Kill()
	stop := writer.Start(20)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitMetric(t, "kubecdc_spool_batches", "", 5)
	stop()
	e.awaitSpooled(t, writer.Marks(all))
	must(t, w.Kafka.Start(ctx))
	e.awaitWrong(t, "stream configmaps: ", "Topic Authorization Failed")
	writer.Run(40)
	w.AwaitComplete(t, writer, well)
	must(t, w.Kafka.Unrule(ctx, refused))
	e.awaitWell(t, "a topic was refused")
	w.AwaitComplete(t, writer, all)

	must(t, w.Kafka.Rule(ctx, refused))
	w.Kafka.Kill()
	stop = writer.Start(20)
	e.awaitMetric(t, "kubecdc_spool_batches", "", 5)
	stop()
	e.awaitSpooled(t, writer.Marks(all))
	e.Kill()
	must(t, w.Kafka.Start(ctx))
	killedAt(t, env, failpoint.Forwarded+":2") // it has written the first batch without the refused resource
	must(t, w.Kafka.Unrule(ctx, refused))
	e = StartExporter(t, "the last", env)
	e.awaitLogged(t, "the sink has all that was in the spool")
	Judge(t, w.Kube, w.AwaitComplete(t, writer, all), w.Prefix, all).Demand(t, 0)
}
