package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/failpoint"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// mustRun runs a command that has to succeed.
func mustRun(t testing.TB, env map[string]string, args ...string) string {
	t.Helper()
	code, out := command(t, env, args...)
	if t.Logf("exporter %s: %s", strings.Join(args, " "), out); code != 0 {
		t.Fatalf("the exit code is %d", code)
	}
	return out
}

// A stream that a user pauses is not read, in another process too, and other streams are. Resumed it goes on from its position, and
// nothing is lost or written twice.
func TestAPausedStreamRemainsPausedOverRestarts(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	w.Writer(t, kinds[:1]).Fill(300)
	writer := w.Writer(t, kinds)
	e := StartExporter(t, "the exporter", w.Env)
	writer.Run(40)
	w.AwaitComplete(t, writer, kinds)
	wantLogSize(t, w, `log: [\d.]+ MiB since \d+ (s|min)\n  about \d+ \wiB: configmaps\n`)
	mustRun(t, w.Env, "pause", ConfigMaps.ID())
	paused := w.Read(t).ControlsOf(ConfigMaps.Stream(), change.ControlStreamPaused)
	if len(paused) != 1 || paused[0].ResourceVersion == "" {
		t.Fatalf("stream-paused records: %+v", paused)
	}
	writer.Run(40)
	w.AwaitComplete(t, writer, []Kind{Roles})
	e.Kill()
	e = StartExporter(t, "the next exporter", w.Env).AwaitReady(t)
	e.awaitWrong(t, "stream configmaps: paused by signal ", "exporter resume configmaps")
	if n := e.Metric(t, "kubecdc_stream_state", `state="paused"`); n != 1 {
		t.Errorf("the metric does not say that it is paused: %v", n)
	}
	w.AwaitComplete(t, writer, []Kind{Roles})
	log := w.Read(t)
	for key, records := range log.ByKey(w.Prefix, ConfigMaps) {
		if last := records[len(records)-1]; last.Version.Compare(paused[0].ResourceVersion) > 0 {
			t.Errorf("%s has a record at %s, after the pause at %s", key, last.Version, paused[0].ResourceVersion)
		}
	}
	if out := mustRun(t, w.Env, "signals", "list"); !strings.Contains(out, "pause") || !strings.Contains(out, "paused") {
		t.Errorf("the list lacks the pause:\n%s", out)
	}
	if out := mustRun(t, w.Env, "snapshot", "configmaps", "--no-wait"); !strings.Contains(out, "stream configmaps is paused") {
		t.Errorf("a snapshot does not say that it has to wait:\n%s", out)
	}
	all := w.signals(t)
	mustRun(t, w.Env, "signals", "abort", strconv.FormatInt(all[len(all)-1].ID, 10))
	mustRun(t, w.Env, "resume", ConfigMaps.ID())
	log = w.AwaitComplete(t, writer, kinds)
	if resumed := log.ControlsOf(ConfigMaps.Stream(), change.ControlStreamResumed); len(resumed) != 1 || resumed[0].ResourceVersion != paused[0].ResourceVersion {
		t.Errorf("it was paused at %s, and resumes: %+v", paused[0].ResourceVersion, resumed)
	}
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	e.stop(t)
	e = aSnapshotIsAborted(t, w)
	if code, out := command(t, w.Env, "resume", ConfigMaps.ID()); code != 1 || !strings.Contains(out, "is not paused") {
		t.Errorf("a stream that is not paused is resumed: %d, %s", code, out)
	}
	if code, out := command(t, w.Env, "pause", "configmapz"); code != 2 || !strings.Contains(out, "did you mean configmaps?") {
		t.Errorf("an unknown stream is paused: %d, %s", code, out)
	}
	if code, out := command(t, w.Env, "forget", "nope"); code != 2 || !strings.Contains(out, `the checkpoint has no stream "nope"`) {
		t.Errorf("an unknown stream is forgotten: %d, %s", code, out)
	}
	e.stop(t)
	nobodyAnswers(t, w)
	aFileIsAskedBetweenRuns(t, w)
}

// aFileIsAskedBetweenRuns demands that a signal that is stored in a file while no exporter runs is answered at the next start.
func aFileIsAskedBetweenRuns(t *testing.T, w *World) {
	t.Helper()
	env := w.With("KUBECDC_SINK", "stdout", "KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
	e := StartExporter(t, "one with a file", env).AwaitReady(t)
	mustRun(t, env, "signals", "list")
	mustRun(t, env, "forget")
	e.stop(t)
	if out := mustRun(t, env, "pause", ConfigMaps.ID(), "--no-wait"); !strings.Contains(out, "the next one that does answers") {
		t.Errorf("the answer is %s", out)
	}
	e = StartExporter(t, "the next one", env)
	e.awaitWrong(t, "stream configmaps: paused by signal 1")
	Await(t, "the record of it", func() (bool, error) {
		return strings.Contains(e.Output(), `"type":"stream-paused"`), nil
	})
}

// signals returns the signals that the command lists.
func (w *World) signals(t testing.TB) (all []checkpoint.Signal) {
	t.Helper()
	_, out := command(t, w.Env, "signals", "list", "-o", "json")
	must(t, json.Unmarshal([]byte(out), &all))
	return all
}

// signalsEvery is how often an exporter polls for signals.
const signalsEvery = 2 * time.Second

// aSnapshotIsAborted aborts a snapshot while the exporter that makes it is suspended.
func aSnapshotIsAborted(t *testing.T, w *World) *Exporter {
	t.Helper()
	e := StartExporter(t, "one that is suspended", w.With("KUBECDC_PAGE_SIZE", "1", "KUBECDC_FAILPOINT", failpoint.SignalAnswered+":1:stop"))
	e.AwaitReady(t)
	mustRun(t, w.Env, "snapshot", ConfigMaps.ID(), "--no-wait")
	last := func() checkpoint.Signal { all := w.signals(t); return all[len(all)-1] }
	e.awaitSuspended(t, failpoint.SignalAnswered)
	if s := last(); s.State != change.SignalInProgress {
		t.Errorf("the signal is %+v", s)
	}
	mustRun(t, w.Env, "signals", "abort", fmt.Sprint(last().ID))
	time.Sleep(signalsEvery) // so that the exporter polls for signals as soon as it goes on, before the snapshot ends
	e.Signal(syscall.SIGCONT)
	Await(t, "the snapshot to be aborted", func() (bool, error) {
		s := last()
		if s.State == change.SignalCompleted {
			return false, fmt.Errorf("it has ended: %+v", s)
		}
		return s.State == change.SignalAborted, nil
	})
	recorded := w.Read(t).ControlsOf(ConfigMaps.Stream(), change.ControlSignal)
	if n := len(recorded); n < 2 || recorded[n-1].Signal.State != change.SignalAborted {
		t.Errorf("signal records: %+v", recorded)
	}
	return e
}

// nobodyAnswers sends a signal while no exporter runs. The command says so and waits. If it is interrupted, it leaves the signal,
// which can be aborted.
func nobodyAnswers(t *testing.T, w *World) {
	t.Helper()
	var out child.Output
	c := Command(t, w.Env, "pause", ConfigMaps.ID())
	c.Stderr = &out
	waiting, err := child.Start(c)
	must(t, err)
	t.Cleanup(waiting.Kill)
	Await(t, "the command to say that nobody answers", func() (bool, error) {
		return strings.Contains(string(out.Bytes()), "no exporter holds slot 0 now"), nil
	})
	must(t, c.Process.Signal(syscall.SIGINT))
	<-waiting.Done()
	if said := string(out.Bytes()); c.ProcessState.ExitCode() != 130 || !strings.Contains(said, "exporter signals list shows how far it is") {
		t.Errorf("interrupted, the command exits with %d:\n%s", c.ProcessState.ExitCode(), said)
	}
	all := w.signals(t)
	last := all[len(all)-1]
	if last.Kind != change.SignalPause || last.State != change.SignalRequested {
		t.Fatalf("the signal is %+v", last)
	}
	mustRun(t, w.Env, "signals", "abort", fmt.Sprint(last.ID))
	if out := mustRun(t, w.Env, "signals", "list"); !strings.Contains(out, "aborted") {
		t.Errorf("it is not aborted:\n%s", out)
	}
	if code, _ := command(t, w.Env, "signals", "abort", fmt.Sprint(last.ID)); code != 2 {
		t.Errorf("a signal that has ended is aborted: %d", code)
	}
}

// A snapshot on demand writes only what the log lacks, and the log remains in order. This holds even if the exporter is killed
// during it and another one goes on.
func TestASnapshotMendsTheLogOnce(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Deployments}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PAGE_SIZE", "10")
	writer := w.Writer(t, kinds).Fill(60)
	e := StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writer, kinds)
	e.awaitCheckpoint(t)
	stop := writer.Start(50)
	for _, kind := range kinds {
		if out := mustRun(t, w.Env, "snapshot", kind.ID()); !strings.Contains(out, " 0 changes, of a list of ") {
			t.Errorf("where nothing differs the answer is %s", out)
		}
	}
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.Signal(syscall.SIGTERM)
	e.Wait(t)

	wrong := w.tamper(t, ConfigMaps)
	before := len(w.Read(t).Records)
	mustRun(t, w.Env, "snapshot", ConfigMaps.ID(), "--no-wait")
	killedAt(t, w.Env, failpoint.SignalAnswered+":2")
	StartExporter(t, "the next exporter", w.Env).AwaitReady(t)
	Await(t, "the snapshot to be completed", func() (bool, error) {
		return w.signals(t)[2].State == change.SignalCompleted, nil
	})
	if out := mustRun(t, w.Env, "snapshot", ConfigMaps.ID()); !strings.Contains(out, " 0 changes, of a list of ") {
		t.Errorf("a second snapshot finds differences: %s", out)
	}
	AwaitMarkers(t, w.Kafka.Brokers, w.Prefix)
	log := w.Read(t)
	mended := map[string]int{}
	for key, records := range log.ByKey(w.Prefix, ConfigMaps) {
		for _, r := range records {
			if r.Inferred {
				mended[r.Op]++
			}
			if r.Inferred && r.Op == "u" && string(r.Before) != wrong[key] {
				t.Errorf("%s: before is %s, want what the log had: %s", key, r.Before, wrong[key])
			}
		}
	}
	if mended["c"] != 1 || mended["u"] != len(wrong) || mended["d"] != 1 || len(log.Records)-before != len(wrong)+3 {
		t.Errorf("the log got %d records, of them %v", len(log.Records)-before, mended)
	}
	WantState(t, w, log, ConfigMaps)
}

// awaitCheckpoint waits until the checkpoint has all batches of the log.
func (e *Exporter) awaitCheckpoint(t testing.TB) {
	t.Helper()
	Await(t, "the checkpoint to follow", func() (bool, error) {
		return e.Metric(t, "kubecdc_checkpoint_pending_objects", "") == 0, nil
	})
}

// tamper changes objects in the checkpoint, as if the log had missed changes. One object is unknown, one exists only there, and
// others have another body at their version or at an older one. It returns these bodies by key.
func (w *World) tamper(t testing.TB, kind Kind) map[string]string {
	t.Helper()
	ctx := t.Context()
	conn := servers.Connect(t, w.Postgres.URL)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(ctx, sql, args...)
		must(t, err)
	}
	var stream int
	must(t, conn.QueryRow(ctx, `select id from kubecdc.streams where name = $1`, kind.Stream()).Scan(&stream))
	rows, err := conn.Query(ctx, `select key, body, delta from kubecdc.inventory where stream = $1 order by key`, stream)
	must(t, err)
	type object struct {
		key  string
		body checkpoint.Body
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		return o, row.Scan(&o.key, &o.body.Base, &o.body.Delta)
	})
	must(t, err)
	wrong := map[string]string{}
	for i, o := range all[:15] {
		body, err := o.body.Unpack()
		must(t, err)
		wrong[o.key] = strings.Replace(string(body), "{", `{"wrong":true,`, 1)
		exec(`update kubecdc.inventory set body = $3, delta = null, resource_version = case when $4 then '1' else resource_version end
			where stream = $1 and key = $2`, stream, o.key, checkpoint.Pack([]byte(wrong[o.key])).Base, i%2 == 0)
	}
	exec(`delete from kubecdc.inventory where stream = $1 and key = $2`, stream, all[len(all)-1].key)
	exec(`insert into kubecdc.inventory (stream, key, uid, resource_version) values ($1, 'zz/ghost', $2, '2')`, stream, "00000000-0000-4000-8000-000000000000")
	return wrong
}

// A snapshot of all objects goes to its own topic, between two records that have the version of its list. The live topics get
// nothing. The exporter may be killed meanwhile, and the checkpoint be lost afterwards.
func TestASnapshotOfAllObjectsLeavesTheLiveTopicsAlone(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PAGE_SIZE", "10")
	writer := w.Writer(t, kinds).Fill(60)
	e := StartExporter(t, "the exporter", w.Env)
	live := len(w.AwaitComplete(t, writer, kinds).ByKey(w.Prefix, ConfigMaps))
	e.awaitCheckpoint(t)
	stop := writer.Start(20)
	mustRun(t, w.Env, "snapshot", ConfigMaps.ID(), "--all")
	stop()
	log := w.AwaitComplete(t, writer, kinds)
	recorded := log.ControlsOf(ConfigMaps.Stream(), change.ControlSignal)
	if len(recorded) != 2 || recorded[0].Signal.State != change.SignalStarted || recorded[1].Signal.State != change.SignalCompleted ||
		recorded[0].ResourceVersion == "" || recorded[0].ResourceVersion != recorded[1].ResourceVersion {
		t.Fatalf("signal records: %+v", recorded)
	}
	for key, records := range snapshotOf(log, w, ConfigMaps) {
		if len(records) != 1 || records[0].Op != "r" || records[0].Version.Compare(recorded[0].ResourceVersion) > 0 {
			t.Errorf("%s: %d records, the first %s at %s, of a list at %s", key, len(records), records[0].Op, records[0].Version, recorded[0].ResourceVersion)
		}
	}
	if n := len(snapshotOf(log, w, ConfigMaps)); n == 0 || n > live+200 {
		t.Errorf("the snapshot has %d objects", n)
	}
	if _, out := command(t, w.Env, "check"); strings.Contains(out, w.Prefix+".snapshot_of.") {
		t.Errorf("the check wants to change the topic of snapshots:\n%s", out)
	}
	e.Kill()
	mustRun(t, w.Env, "snapshot", ConfigMaps.ID(), "--all", "--no-wait")
	killedAt(t, w.Env, failpoint.SignalAnswered+":1")
	e = StartExporter(t, "the next exporter", w.Env)
	Await(t, "the snapshot to be completed", func() (bool, error) {
		all := w.Read(t).ControlsOf(ConfigMaps.Stream(), change.ControlSignal)
		return len(all) >= 5 && all[len(all)-1].Signal.State == change.SignalCompleted, nil
	})
	e.Kill()
	servers.Exec(t, w.Postgres.URL, "drop schema kubecdc cascade")
	StartExporter(t, "the one without a checkpoint", w.Env)
	log = w.AwaitComplete(t, writer, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	recorded = log.ControlsOf(ConfigMaps.Stream(), change.ControlSignal)
	var states []string
	for _, r := range recorded {
		states = append(states, string(r.Signal.State))
	}
	// The one that was killed may have completed it in the log before its first answer was in the checkpoint. Then it is done again.
	all := strings.Replace(strings.Join(states, " "), "started completed in-progress", "started in-progress", 1)
	if all != "started completed started in-progress completed" {
		t.Fatalf("signal records: %q", states)
	}
	again := recorded[len(recorded)-2].ResourceVersion
	for key, records := range log.ByKey(w.Prefix, ConfigMaps) {
		if last := records[len(records)-1]; last.Op != "" && len(snapshotOf(log, w, ConfigMaps)[key]) == 0 && last.Version.Compare(again) <= 0 {
			t.Errorf("%s is in no snapshot", key)
		}
	}
	var streams int
	must(t, servers.Connect(t, w.Postgres.URL).QueryRow(t.Context(), "select count(*) from kubecdc.streams").Scan(&streams))
	if streams != 1 {
		t.Errorf("the checkpoint has %d streams", streams)
	}
}

// Without the topic of a snapshot nothing else is lost: the live topics go on, and answers about the past are the same. The next
// snapshot creates the topic again.
func TestSlowADeletedSnapshotTopicIsNoOtherLoss(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds).Fill(20)
	e := StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writer, kinds)
	snapshot := func() int {
		mustRun(t, w.Env, "snapshot", ConfigMaps.ID(), "--all")
		return len(snapshotOf(w.Read(t), w, ConfigMaps))
	}
	copied := snapshot()
	since := func() string {
		return regexp.MustCompile(`complete from \d+`).FindString(mustRun(t, w.Env, "state", "--at", "now", ConfigMaps.ID()))
	}
	complete := since()
	e.stop(t)
	deleteTopics(t, w, w.Prefix+".snapshot_of."+ConfigMaps.ID())
	e = StartExporter(t, "the next exporter", w.Env).AwaitReady(t)
	if now := since(); now != complete || now == "" {
		t.Errorf("the log was %s, and is %s", complete, now)
	}
	writer.Run(10)
	log := w.AwaitComplete(t, writer, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	if gaps := log.ControlsOf(ConfigMaps.Stream(), change.ControlGap); len(gaps) > 0 || strings.Contains(e.Output(), "writing the objects again") {
		t.Errorf("gap records %+v", gaps)
	}
	if n := snapshot(); copied == 0 || n == 0 {
		t.Errorf("the snapshots have %d and %d objects", copied, n)
	}
	mustRun(t, w.Env, "verify")
}

// snapshotOf returns the records of a kind's snapshots, by object.
func snapshotOf(l *Log, w *World, kind Kind) map[string][]Record {
	return l.ByKey(w.Prefix+".snapshot_of", kind)
}
