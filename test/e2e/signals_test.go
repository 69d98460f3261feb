package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// must0 runs a command that has to succeed.
func must0(t testing.TB, env map[string]string, args ...string) string {
	t.Helper()
	code, out := command(t, env, args...)
	if t.Logf("exporter %s: %s", strings.Join(args, " "), out); code != 0 {
		t.Fatalf("the exit code is %d", code)
	}
	return out
}

// A stream that a user pauses is not read, in another process too, and others are. Resumed it goes on where it was: nothing is
// lost, and nothing there twice.
func TestAPausedStreamStaysPausedOverRestarts(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds)
	writer.Run(40)
	e := StartExporter(t, "the exporter", w.Env)
	writer.Run(40)
	w.AwaitComplete(t, writer, kinds)
	must0(t, w.Env, "pause", ConfigMaps.ID())
	paused := w.Read(t).controlsOf(ConfigMaps.Stream(), change.ControlStreamPaused)
	if len(paused) != 1 || paused[0].ResourceVersion == "" {
		t.Fatalf("stream-paused records: %+v", paused)
	}
	writer.Run(40)
	w.AwaitComplete(t, writer, []Kind{Roles})
	e.Kill()
	e = StartExporter(t, "the next exporter", w.Env)
	e.AwaitReady(t)
	e.awaitRefused(t, "stream configmaps: paused by signal ", "exporter resume configmaps")
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
	if out := must0(t, w.Env, "signals", "list"); !strings.Contains(out, "pause") || !strings.Contains(out, "paused") {
		t.Errorf("the list lacks the pause:\n%s", out)
	}
	must0(t, w.Env, "resume", ConfigMaps.ID())
	log = w.AwaitComplete(t, writer, kinds)
	if resumed := log.controlsOf(ConfigMaps.Stream(), change.ControlStreamResumed); len(resumed) != 1 || resumed[0].ResourceVersion != paused[0].ResourceVersion {
		t.Errorf("it was paused at %s, and resumes: %+v", paused[0].ResourceVersion, resumed)
	}
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	if code, out := command(t, w.Env, "resume", ConfigMaps.ID()); code != 1 || !strings.Contains(out, "is not paused") {
		t.Errorf("a stream that is not paused is resumed: %d, %s", code, out)
	}
	if code, out := command(t, w.Env, "pause", "configmap"); code != 2 || !strings.Contains(out, "did you mean configmaps?") {
		t.Errorf("an unknown stream is paused: %d, %s", code, out)
	}
	e.Signal(syscall.SIGTERM)
	if code := e.Wait(t, 25*time.Second); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
}

// A snapshot on demand writes what the log lacks and nothing else, and the log stays in order, also if the exporter is killed in
// the middle of it and another one goes on.
func TestASnapshotMendsTheLogOnce(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, servers.KafkaOptions{})
	kinds := []Kind{ConfigMaps, Deployments}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PAGE_SIZE", "10")
	writer := w.Writer(t, kinds)
	writer.Fill(60)
	e := StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writer, kinds)
	Await(t, 30*time.Second, "the checkpoint to follow", func() (bool, error) {
		return e.Metric(t, "kubecdc_checkpoint_pending_objects", "") == 0, nil
	})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { writer.Until(stop, 50); close(done) }()
	for _, kind := range kinds {
		if out := must0(t, w.Env, "snapshot", "--resource", kind.ID()); !strings.Contains(out, " 0 changes, of a list of ") {
			t.Errorf("where nothing differs the answer is %s", out)
		}
	}
	close(stop)
	<-done
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.Signal(syscall.SIGTERM)
	e.Wait(t, 25*time.Second)

	wrong := w.tamper(t, ConfigMaps)
	before := len(w.Read(t).Records)
	must0(t, w.Env, "snapshot", "--resource", ConfigMaps.ID(), "--no-wait")
	killedAt(t, w.Env, failpoint.SnapshotPage+":2")
	e = StartExporter(t, "the next exporter", w.Env)
	e.AwaitReady(t)
	Await(t, 60*time.Second, "the snapshot to be completed", func() (bool, error) {
		return strings.Contains(must0(t, w.Env, "signals", "list"), "completed, "), nil
	})
	if out := must0(t, w.Env, "snapshot", "--resource", ConfigMaps.ID()); !strings.Contains(out, " 0 changes, of a list of ") {
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
	(&Verdict{}).finalState(t, w.Kube, ConfigMaps, log.ByKey(w.Prefix, ConfigMaps))
}

// tamper changes what the checkpoint has of objects, as if the log had missed changes: one object is unknown, one that does not
// exist is there, and of others the body differs, at their version or at an older one. It returns these bodies by key.
func (w *World) tamper(t testing.TB, kind Kind) map[string]string {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, w.Postgres.URL)
	must(t, err)
	defer conn.Close(ctx)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(ctx, sql, args...)
		must(t, err)
	}
	var stream int
	must(t, conn.QueryRow(ctx, `select id from kubecdc.streams where name = $1`, kind.Stream()).Scan(&stream))
	rows, err := conn.Query(ctx, `select key, body from kubecdc.inventory where stream = $1 order by key`, stream)
	must(t, err)
	type object struct {
		key  string
		body checkpoint.Body
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) { return o, row.Scan(&o.key, &o.body) })
	must(t, err)
	wrong := map[string]string{}
	for i, o := range all[:15] {
		body, err := o.body.Unpack(nil)
		must(t, err)
		wrong[o.key] = strings.Replace(string(body), "{", `{"wrong":true,`, 1)
		exec(`update kubecdc.inventory set body = $3, resource_version = case when $4 then '1' else resource_version end
			where stream = $1 and key = $2`, stream, o.key, []byte(checkpoint.Pack([]byte(wrong[o.key]))), i%2 == 0)
	}
	exec(`delete from kubecdc.inventory where stream = $1 and key = $2`, stream, all[len(all)-1].key)
	exec(`insert into kubecdc.inventory (stream, key, uid, resource_version) values ($1, 'zz/ghost', $2, '2')`, stream, "00000000-0000-4000-8000-000000000000")
	return wrong
}
