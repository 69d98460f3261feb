package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/test/servers"
)

// The log loses records while no exporter runs, and the cluster goes on. The gap record ends where the log was complete: the log has every
// change after that, with its own version.
func TestWhatFollowsALossIsInTheLog(t *testing.T) {
	for name, x := range map[string]struct {
		world func(testing.TB) *World
		lose  func(*testing.T, *World)
	}{
		"records of a topic": {NewWorld, func(t *testing.T, w *World) { deleteRecords(t, w, ConfigMaps.ID()) }},
		"all topics":         {NewWorld, func(t *testing.T, w *World) { deleteTopics(t, w, topicsOf(t, w)...) }},
		"the control topic":  {NewWorld, func(t *testing.T, w *World) { deleteTopics(t, w, w.Prefix+".control") }},
		"a row in Postgres": {func(t testing.TB) *World { return NewPostgresWorld(t, servers.PostgresOptions{}) }, func(t *testing.T, w *World) {
			db, err := pgx.Connect(t.Context(), w.Postgres.URL)
			must(t, err)
			defer db.Close(context.Background())
			_, err = db.Exec(t.Context(), `delete from kubecdc_log.objects where ctid = (select ctid from kubecdc_log.objects where resource = 'configmaps' limit 1)`)
			must(t, err)
		}},
		"a row in SQLite": {NewFileWorld, func(t *testing.T, w *World) {
			file, err := sqlitefile.Own(t.Context(), w.File)
			must(t, err)
			defer file.Close()
			_, err = file.DB().ExecContext(t.Context(), `delete from log_objects where id = (select o.id from log_objects o join log_resources r
				on r.id = o.resource where r.resource = 'configmaps' and o.gone is null limit 1)`)
			must(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := x.world(t)
			kinds := []Kind{ConfigMaps, Secrets}
			writer := w.Writer(t, kinds)
			writer.Fill(10)
			env := w.With("KUBECDC_RESOURCES", Resources(kinds))
			runFor(t, env, func() { writer.Run(60); w.AwaitComplete(t, writer, kinds) })
			x.lose(t, w)
			writer.Run(60)
			var log *Log
			runFor(t, env, func() { writer.Run(20); log = w.AwaitComplete(t, writer, kinds) })
			if end := lossEnd(log); end == "" || change.VersionOf(uint64(log.SinceLastSnapshot(w.Prefix, kinds).SnapshotEnd(ConfigMaps.ID()))) != end {
				t.Errorf("the loss ends at %q, and the log was compared at %d", end, log.SinceLastSnapshot(w.Prefix, kinds).SnapshotEnd(ConfigMaps.ID()))
			}
			Judge(t, w.Kube, log.SinceLastSnapshot(w.Prefix, kinds), w.Prefix, kinds).Demand(t, 0)
		})
	}
}

// The API server has forgotten the version up to which the log was complete. The gap then ends at the present list.
func TestALossOfWhatEtcdHasForgottenEndsAtTheList(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Secrets}
	writer := w.Writer(t, kinds)
	writer.Fill(10)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds))
	runFor(t, env, func() { writer.Run(40); w.AwaitComplete(t, writer, kinds) })
	deleteRecords(t, w, ConfigMaps.ID())
	writer.Run(40)
	hidden := writer.Marks(kinds)[ConfigMaps.Stream()]
	must(t, w.Kube.Compact(t.Context(), 0))
	var log *Log
	runFor(t, env, func() { writer.Run(40); log = w.AwaitComplete(t, writer, kinds) })
	if end := lossEnd(log); end.Compare(hidden) < 0 {
		t.Errorf("the loss ends at %q, and nobody knows what happened until %s", end, hidden)
	}
	WantState(t, w, log, kinds...)
}

// lossEnd is where the last loss of ConfigMaps ends.
func lossEnd(log *Log) (end change.ResourceVersion) {
	for _, c := range log.ControlsOf(ConfigMaps.Stream(), change.ControlGap) {
		if c.Gap.Lost() {
			end = c.Gap.To
		}
	}
	return end
}

// deleteRecords removes all records of a resource's topic.
func deleteRecords(t *testing.T, w *World, resource string) {
	t.Helper()
	a, topic := admin(t, w), w.Prefix+"."+resource
	ends, err := a.ListEndOffsets(t.Context(), topic)
	must(t, err)
	var offsets kadm.Offsets = ends.Offsets()
	answers, err := a.DeleteRecords(t.Context(), offsets)
	must(t, err)
	must(t, answers.Error())
}

// The log loses records while its server is away, and etcd forgets what happened meanwhile. All that the spool has is in the log, behind
// the gap record.
func TestASpoolIsForwardedBehindALoss(t *testing.T) {
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		w := NewWorld(t)
		lane := w.Kafka.Lane(t)
		lostBeforeASpool(t, w, lane, ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address)), func() { deleteRecords(t, w, ConfigMaps.ID()) })
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		w := NewPostgresWorld(t, servers.PostgresOptions{})
		w.separateCheckpoint(t)
		proxies, env := w.Proxied(t)
		lostBeforeASpool(t, w, proxies["sink"], ownSpool(t, env), func() {
			db, err := pgx.Connect(t.Context(), w.Postgres.URL)
			must(t, err)
			defer db.Close(context.Background())
			for _, table := range []string{"objects", "changes"} {
				_, err = db.Exec(t.Context(), `delete from kubecdc_log.`+table+` where resource = 'configmaps'`)
				must(t, err)
			}
		})
	})
}

func lostBeforeASpool(t *testing.T, w *World, sink *servers.Proxy, env map[string]string, lose func()) {
	kinds := []Kind{ConfigMaps, Secrets}
	writer := w.Writer(t, kinds)
	writer.Fill(20)
	env = withSettings(env, "KUBECDC_RESOURCES", Resources(kinds))
	e := StartExporter(t, "the exporter", env)
	e.AwaitReady(t)
	writer.Run(60)
	w.AwaitComplete(t, writer, kinds)
	sink.Cut()
	writer.Run(100)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitSpooled(t, writer.Marks(kinds))
	lose()
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, sink.Restore())
	for _, line := range []string{"the log has lost records before the spool", "comparing what the log still has", "the sink has all that was in the spool"} {
		e.awaitLogged(t, line)
	}
	writer.Run(40)
	log := w.AwaitComplete(t, writer, kinds)
	if out := e.Output(); strings.Contains(out, "put aside") {
		t.Error("the spool was put aside")
	}
	var first change.ResourceVersion // where the log was complete before the spool
	since := *log
	since.Controls = nil
	for _, c := range log.Controls {
		if c.Type == change.ControlGap && c.Gap.Lost() && first == "" {
			first = c.Gap.To
		}
		if c.Type != change.ControlSnapshotEnd {
			since.Controls = append(since.Controls, c)
		}
	}
	since.Controls = append(since.Controls, change.SnapshotEndControl(ConfigMaps.Stream(), first, 0))
	v := Judge(t, w.Kube, &since, w.Prefix, kinds[:1])
	if v.Demand(t, 0); v.Changes < 40 {
		t.Errorf("only %d changes happened after the loss", v.Changes)
	}
	if lossEnd(log) == first {
		t.Errorf("the log was compared at %s, before the spool", first)
	}
}
