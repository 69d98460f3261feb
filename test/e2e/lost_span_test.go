package e2e

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/test/oracle"
	"kubecdc/test/servers"
)

// The log loses records while no exporter runs, and the cluster goes on. The gap record ends where the log was complete: the log
// has every change after that, with its own version.
func TestWhatFollowsALossIsInTheLog(t *testing.T) {
	for name, x := range map[string]struct {
		world func(testing.TB) *World
		lose  func(*testing.T, *World)
	}{
		"records of a topic": {NewWorld, func(t *testing.T, w *World) { deleteRecords(t, w, ConfigMaps.ID()) }},
		"all topics":         {NewWorld, func(t *testing.T, w *World) { deleteTopics(t, w, topicsOf(t, w)...) }},
		"the control topic":  {NewWorld, func(t *testing.T, w *World) { deleteTopics(t, w, w.Prefix+".control") }},
		"a row in Postgres": {func(t testing.TB) *World { return NewPostgresWorld(t, servers.PostgresOptions{}) }, func(t *testing.T, w *World) {
			servers.Exec(t, w.Postgres.URL, `delete from kubecdc_log.objects where ctid = (select ctid from kubecdc_log.objects where resource = 'configmaps' limit 1)`)
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
			writer := w.Writer(t, kinds).Fill(10)
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
	writer := w.Writer(t, kinds).Fill(10)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds))
	runFor(t, env, func() { writer.Run(40); w.AwaitComplete(t, writer, kinds) })
	deleteRecords(t, w, ConfigMaps.ID())
	writer.Run(40)
	hidden := writer.Marks(kinds)[ConfigMaps.Stream()]
	must(t, w.Kube.Compact(t.Context(), 0))
	must(t, w.Kube.RestartAPIServer(t.Context())) // its cache forgets, too
	var log *Log
	runFor(t, env, func() {
		writer.Run(40)
		w.awaitCompared(t, ConfigMaps) // the gap record follows what the list has written
		log = w.AwaitComplete(t, writer, kinds)
	})
	if end := lossEnd(log); end.Compare(hidden) < 0 {
		t.Errorf("the loss ends at %q, and nobody knows what happened until %s", end, hidden)
	}
	WantState(t, w, log, kinds...)
}

// lossEnd is where the last loss of ConfigMaps ends, or empty.
func lossEnd(log *Log) (end change.ResourceVersion) {
	if ends := lossEnds(log, ConfigMaps); len(ends) > 0 {
		end = ends[len(ends)-1]
	}
	return end
}

func lossEnds(log *Log, kind Kind) (ends []change.ResourceVersion) {
	for _, c := range log.ControlsOf(kind.Stream(), change.ControlGap) {
		if c.Gap.Lost() {
			ends = append(ends, c.Gap.To)
		}
	}
	return ends
}

// awaitCompared waits until the log was compared at the end of the last loss of a kind, or with a present list.
func (w *World) awaitCompared(t *testing.T, kind Kind) {
	t.Helper()
	Await(t, "the comparison after the loss of "+kind.ID(), func() (bool, error) {
		log := &Log{Controls: w.controls(t)}
		var last *change.Gap
		for _, c := range log.ControlsOf(kind.Stream(), change.ControlGap) {
			if c.Gap.Lost() {
				last = c.Gap
			}
		}
		for _, c := range log.ControlsOf(kind.Stream(), change.ControlSnapshotEnd) {
			if last != nil && c.ResourceVersion == last.To {
				return true, nil
			}
		}
		return last != nil && strings.Contains(last.Reason, "only the difference"), nil
	})
}

// judgeSinceLoss demands that the log has lost something of each kind, and every change after the end of its last loss.
func (w *World) judgeSinceLoss(t *testing.T, log *Log, kinds ...Kind) {
	t.Helper()
	for _, kind := range kinds {
		if ends := lossEnds(log, kind); len(ends) > 0 {
			judgeSince(t, w, log, kind, ends[len(ends)-1])
		} else {
			t.Errorf("no loss of %s is recorded", kind.ID())
		}
	}
}

// judgeSince demands that the log has every change of a kind after a version. A change before it may have a before that is lost.
func judgeSince(t *testing.T, w *World, log *Log, kind Kind, version change.ResourceVersion) *Verdict {
	t.Helper()
	since := *log
	since.Records = recordsSince(log.Records, version)
	since.Controls = []change.Control{change.SnapshotEndControl(kind.Stream(), version, 0)}
	v := Judge(t, w.Kube, &since, w.Prefix, []Kind{kind})
	v.Demand(t, 0)
	return v
}

// recordsSince are each object's last record up to a version, with its tombstone, and all records that follow.
func recordsSince(all []oracle.Record, version change.ResourceVersion) (since []oracle.Record) {
	first := map[string]int{}
	for i, r := range all {
		if r.Op != "" && r.Version.Compare(version) <= 0 {
			first[r.Topic+" "+r.Key] = i
		}
	}
	for i, r := range all {
		if i >= first[r.Topic+" "+r.Key] {
			since = append(since, r)
		}
	}
	return since
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

// The log loses records while its server is away, and etcd forgets what happened meanwhile. All that the spool has is in the log,
// behind the gap record.
func TestASpoolIsForwardedBehindALoss(t *testing.T) {
	withSpool(t, lostBeforeASpool)
}

func lostBeforeASpool(t *testing.T, w *World, sink *servers.Proxy, env map[string]string) {
	kinds := []Kind{ConfigMaps, Secrets}
	writer := w.Writer(t, kinds).Fill(20)
	env = withSettings(env, "KUBECDC_RESOURCES", Resources(kinds))
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	writer.Run(60)
	w.AwaitComplete(t, writer, kinds)
	sink.Cut()
	writer.Run(100)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitSpooled(t, writer.Marks(kinds))
	if w.Kafka != nil {
		deleteRecords(t, w, ConfigMaps.ID())
	} else {
		servers.Exec(t, w.Postgres.URL, `delete from kubecdc_log.objects where resource = 'configmaps'; delete from kubecdc_log.changes where resource = 'configmaps'`)
	}
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, sink.Restore())
	for _, line := range []string{"the log has lost records before the spool", "comparing what the log still has", "the sink has all that was in the spool"} {
		e.awaitLogged(t, line)
	}
	w.awaitCompared(t, ConfigMaps) // etcd has forgotten the end of the spool, so a present list ends the gap
	writer.Run(40)
	log := w.AwaitComplete(t, writer, kinds)
	if out := e.Output(); strings.Contains(out, "put aside") {
		t.Error("the spool was put aside")
	}
	first := lossEnds(log, ConfigMaps)[0] // where the log was complete before the spool
	if v := judgeSince(t, w, log, ConfigMaps, first); v.Changes < 40 {
		t.Errorf("only %d changes happened after the loss", v.Changes)
	}
	if lossEnd(log) == first {
		t.Errorf("the log was compared at %s, before the spool", first)
	}
}

// Somebody removes batches from the middle of the log, or changes a row. `verify` names the hole, the next exporter records
// exactly what is missing, and lists nothing.
func TestAHoleInTheMiddleIsAGapOfItsSpan(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		w := NewFileWorld(t)
		holeInTheMiddle(t, w, 0, func(first, _ int) {
			file, err := sqlitefile.Own(t.Context(), w.File)
			must(t, err)
			defer file.Close()
			_, err = file.DB().ExecContext(t.Context(), `update log_changes set time = time + 60000
				where id = (select id + 1 from log_batches where seq = ?1 and changes > 0)`, first)
			must(t, err)
		})
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		w := NewPostgresWorld(t, servers.PostgresOptions{})
		holeInTheMiddle(t, w, 5, func(first, last int) {
			for table, column := range map[string]string{"batches": "seq", "changes": "batch", "control": "batch"} {
				servers.Exec(t, w.Postgres.URL, `delete from kubecdc_log.`+table+` where `+column+` between $1 and $2`, first, last)
			}
		})
	})
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		w := NewFragileWorld(t)
		holeInTheMiddle(t, w, 5, func(first, _ int) {
			w.Kafka.Kill()
			must(t, w.Kafka.CutMiddle(w.Prefix+".control-0", first+2, 5))
			must(t, w.Kafka.Start(servers.Context(t)))
		})
	})
}

// movesOf returns the position to which each batch of a log moves a stream, or "".
func movesOf(log *Log, stream change.StreamID) map[uint64]change.ResourceVersion {
	all, last := map[uint64]change.ResourceVersion{}, uint64(0)
	for _, c := range log.Controls {
		if c.Type != change.ControlBatch {
			continue
		}
		last = cmp.Or(c.Batch, last+1)
		all[last] = ""
		for _, p := range c.Positions {
			if p.Stream == stream {
				all[last] = p.ResourceVersion
			}
		}
	}
	return all
}

func holeInTheMiddle(t *testing.T, w *World, removed uint64, remove func(first, last int)) {
	kinds := []Kind{ConfigMaps, Secrets}
	writer := w.Writer(t, kinds).Fill(10)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_BATCH_MAX_CHANGES", "10")
	runFor(t, env, func() { writer.Run(200); w.AwaitComplete(t, writer, kinds) })
	positions := movesOf(w.Read(t), ConfigMaps.Stream())
	last := slices.Max(slices.Collect(maps.Keys(positions)))
	first := last / 2
	for removed == 0 && positions[first] == "" {
		first++
	}
	remove(int(first), int(first+removed-1))
	for left := movesOf(w.Read(t), ConfigMaps.Stream()); w.Kafka != nil; first++ { // owners' first records count as writes
		if _, exists := left[first]; !exists {
			break
		}
	}
	var from, to change.ResourceVersion
	for n := first - 1; from == "" && n > 0; n-- {
		from = positions[n]
	}
	for n := first + removed; to == "" && n <= last; n++ {
		to = positions[n]
	}
	code, out := command(t, env, "verify")
	if code != 1 || !strings.Contains(out, "the log has a hole") {
		t.Errorf("verify ends with %d and prints %s", code, out)
	}
	var log *Log
	runFor(t, env, func() { writer.Run(20); log = w.AwaitComplete(t, writer, kinds) })
	found := ""
	for _, c := range log.ControlsOf(ConfigMaps.Stream(), change.ControlGap) {
		found += string(c.Gap.From + " " + c.Gap.To)
	}
	if found != string(from+" "+to) {
		t.Errorf("the gaps are %q, want one from %s to %s", found, from, to)
	}
	if n := len(log.ControlsOf(ConfigMaps.Stream(), change.ControlSnapshotEnd)); n > 1 {
		t.Errorf("%d lists were made", n)
	}
	if _, out := command(t, env, "verify"); strings.Contains(out, "hole") { // objects whose last change was removed may differ
		t.Errorf("verify prints after the hole was recorded: %s", out)
	}
}

// The log loses batches in its middle while its server is away, and proofs are in the spool. The record of the hole comes before what the
// spool has.
func TestAHoleIsRecordedBeforeASpoolIsForwarded(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	w.separateCheckpoint(t)
	proxies, env := w.Proxied(t)
	env = withSettings(ownSpool(t, env), "KUBECDC_RESOURCES", Resources([]Kind{ConfigMaps}), "KUBECDC_PROOF_INTERVAL", "1s",
		"KUBECDC_BATCH_MAX_CHANGES", "5")
	writer := w.Writer(t, []Kind{ConfigMaps}).Fill(20)
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	writer.Run(60)
	w.AwaitComplete(t, writer, []Kind{ConfigMaps})
	proxies["sink"].Cut()
	writer.Run(20)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitSpooled(t, writer.Marks([]Kind{ConfigMaps}))
	for table, column := range map[string]string{"batches": "seq", "changes": "batch", "control": "batch"} {
		servers.Exec(t, w.Postgres.URL, `delete from kubecdc_log.`+table+` where `+column+` between 6 and 8`)
	}
	e.awaitMetric(t, "kubecdc_proofs_total", "equal", e.Metric(t, "kubecdc_proofs_total", "equal")+2)
	must(t, proxies["sink"].Restore())
	e.awaitLogged(t, "the sink has all that was in the spool")
	writer.Run(20)
	log := w.AwaitComplete(t, writer, []Kind{ConfigMaps})
	holes := 0
	for _, c := range log.ControlsOf(ConfigMaps.Stream(), change.ControlGap) {
		if strings.HasPrefix(c.Gap.ID, "hole:") {
			holes++
		}
	}
	if holes != 1 {
		t.Errorf("the log has %d records of holes, want 1", holes)
	}
	if n := strings.Count(string(e.log.Bytes()), `error="the log has a hole`); n > 1 {
		t.Errorf("%d sessions ended by the hole", n)
	}
}
