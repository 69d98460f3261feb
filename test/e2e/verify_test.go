package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/servers"
	"kubecdc/verify"
)

// proofsOf returns the newest proof of each stream.
func (w *World) proofsOf(t testing.TB) map[change.StreamID]change.Control {
	last := map[change.StreamID]change.Control{}
	for _, c := range w.controls(t) {
		if c.Type == change.ControlProof {
			last[c.Stream] = c
		}
	}
	return last
}

// awaitProof waits for a proof of a stream, at a later resourceVersion than after, with a result.
func (w *World) awaitProof(t testing.TB, kind Kind, result change.ProofResult, after change.ResourceVersion) {
	t.Helper()
	Await(t, fmt.Sprintf("a proof of %s: %s", kind.ID(), result), func() (bool, error) {
		c, found := w.proofsOf(t)[kind.Stream()]
		return found && c.Proof.Result == result && c.ResourceVersion.Compare(after) >= 0, nil
	})
}

// verified runs exporter verify and returns the differences, as "copy kind key".
func (w *World) verified(t testing.TB, want int, args ...string) map[string]bool {
	t.Helper()
	code, out := command(t, w.Env, append([]string{"verify", "-o", "json"}, args...)...)
	if code != want {
		t.Fatalf("exporter verify %v: exit code %d, want %d\n%s", args, code, want, out)
	}
	var all []verify.Result
	begin := strings.Index(out, "[\n")
	must(t, json.NewDecoder(strings.NewReader(out[begin:])).Decode(&all))
	differ := map[string]bool{}
	for _, r := range all {
		if r.Problem != "" || r.Objects == 0 {
			t.Errorf("%s in the %s was not compared: %+v", r.Stream, r.In, r)
		}
		for _, d := range r.Differences {
			differ[fmt.Sprintf("%s %s %s", r.In, d.Kind, d.Key)] = true
		}
	}
	return differ
}

func wantOnly(t testing.TB, got map[string]bool, want ...string) {
	t.Helper()
	for _, w := range want {
		if !got[w] {
			t.Errorf("verify lacks %q", w)
		}
		delete(got, w)
	}
	for g := range got {
		t.Errorf("verify says %q too", g)
	}
}

// liveIn returns the last records of those ConfigMaps that are not deleted.
func liveIn(l *Log, w *World) (records []Record) {
	for _, all := range l.ByKey(w.Prefix, ConfigMaps) {
		if last := all[len(all)-1]; strings.Contains(string(last.After), `"pad"`) { // others are the API server's own ConfigMaps
			records = append(records, last)
		}
	}
	return records
}

// plant writes a record like the exporter's, with a plain producer.
func (w *World) plant(t testing.TB, template Record, op, name string, version change.ResourceVersion) (key string) {
	t.Helper()
	return w.plantAt(t, template, op, name, version, -1, "", "")
}

// plantAt is plant with a text of the value replaced, on a partition, or on the key's partition for -1.
func (w *World) plantAt(t testing.TB, template Record, op, name string, version change.ResourceVersion, partition int32, old, replaced string) (key string) {
	t.Helper()
	raw := rawRecord(t, w, template)
	namespace, _ := change.SplitKey(template.Key)
	record := &kgo.Record{Topic: template.Topic, Key: raw.Key, Value: []byte(strings.Replace(string(raw.Value), `"op":"`+template.Op, `"op":"`+op, 1)), Partition: partition}
	record.Value = []byte(strings.Replace(string(record.Value), old, replaced, -1))
	if name != "" {
		record.Key = []byte(strings.Replace(string(raw.Key), strings.TrimPrefix(template.Key, namespace+"/"), name, 1))
		template.Key = change.ObjectKey(namespace, name)
	}
	for _, h := range raw.Headers {
		switch h.Key {
		case change.HeaderOp:
			h.Value = []byte(op)
		case change.HeaderResourceVersion:
			h.Value = []byte(version)
		}
		record.Headers = append(record.Headers, h)
	}
	options := []kgo.Opt{kgo.SeedBrokers(w.Kafka.Brokers...)} // with Java's partitioner, like the exporter
	if partition >= 0 {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := kgo.NewClient(options...)
	must(t, err)
	defer client.Close()
	must(t, client.ProduceSync(t.Context(), record).FirstErr())
	return template.Key
}

func rawRecord(t testing.TB, w *World, r Record) *kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		r.Topic: {r.Partition: kgo.NewOffset().At(r.Offset)}}))
	must(t, err)
	defer client.Close()
	for {
		if records := client.PollFetches(t.Context()).Records(); len(records) > 0 {
			return records[0]
		}
		must(t, t.Context().Err())
	}
}

// A plain producer writes records into a topic, and rows of the inventory are changed. Verify finds and repairs these differences,
// while objects change. Proofs find no fault in what the exporter emits.
func TestVerifyFindsAndRepairsWhatATopicHasWrongly(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_PROOF_INTERVAL", "1s")
	writer := w.Writer(t, kinds)
	writer.Run(40)
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	Await(t, "verify to find nothing", func() (bool, error) {
		code, _ := command(t, w.Env, "verify")
		return code == 0, nil
	})
	stop := writer.Start(50)
	for range 3 {
		wantOnly(t, w.verified(t, 0))
	}
	stop()
	log := w.AwaitComplete(t, writer, kinds)
	w.awaitProof(t, ConfigMaps, change.ProofEqual, writer.mark(ConfigMaps))

	live := liveIn(log, w)
	missing := w.plant(t, live[0], "d", "", live[0].Version)
	stale := w.plant(t, live[1], "u", "", "2")
	extra := w.plant(t, live[2], "c", "planted", "3")
	changed := w.plantAt(t, live[6], "u", "", live[6].Version, -1, `"pad":"`, `"pad":"not what it was`)
	future := w.plant(t, live[7], "u", "", "999999999")
	found := w.verified(t, 1)
	wantOnly(t, found, "topic missing "+missing, "topic stale "+stale, "topic extra "+extra, "topic changed "+changed, "topic stale "+future)
	wantOnly(t, w.verified(t, 1, "--identities"), "topic missing "+missing, "topic stale "+stale, "topic extra "+extra, "topic stale "+future)
	wantOnly(t, w.verified(t, 0, "--repair"))
	wantOnly(t, w.verified(t, 0))

	e.Kill() // a running exporter has its emitted objects in memory
	for _, statement := range []string{
		`insert into kubecdc.inventory (stream, key, uid, resource_version) select stream, 'default/planted', uid, '3' from kubecdc.inventory where key = $1`,
		`update kubecdc.inventory set resource_version = '2' where key = $1`,
		`delete from kubecdc.inventory where key = $1`,
	} {
		key := map[byte]string{'i': live[3].Key, 'u': live[4].Key, 'd': live[5].Key}[statement[0]]
		servers.Exec(t, w.Postgres.URL, strings.Replace(statement, "where", `where stream in (select id from kubecdc.streams where name = 'configmaps') and`, 1), key)
	}
	e = StartExporter(t, "the next exporter", w.Env).AwaitReady(t)
	w.awaitProof(t, ConfigMaps, change.ProofDifferent, "")
	e.awaitWrong(t, "stream configmaps: its objects in the log differ from the API server's", "1 missing, 1 stale, 1 extra")
	wantOnly(t, w.verified(t, 1), "inventory extra default/planted", "inventory stale "+live[4].Key, "inventory missing "+live[5].Key)
	wantOnly(t, w.verified(t, 0, "--repair"))
	w.awaitProof(t, ConfigMaps, change.ProofEqual, writer.mark(ConfigMaps))
	for _, r := range w.Read(t).Records {
		if r.Version == "3" && r.Op == "d" && !r.Inferred {
			t.Errorf("the repair %+v is not marked", r)
		}
	}
	misplaced := w.plantAt(t, live[8], live[8].Op, "", live[8].Version, (live[8].Partition+1)%3, "", "")
	wantOnly(t, w.verified(t, 1), "topic apart "+misplaced)
	e.Signal(syscall.SIGTERM)
	e.Wait(t)
}

// Two commands that repair at the same time write each difference once.
func TestSlowTwoRepairsWriteOnce(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds).Fill(10)
	StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	live := liveIn(w.AwaitComplete(t, writer, kinds), w)
	stale := w.plant(t, live[0], "u", "", "2")
	extra := w.plant(t, live[1], "c", "planted", "3")
	mustRun(t, w.Env, "pause", ConfigMaps.ID()) // so both have compared before either repairs
	ended := make(chan string, 2)
	repairing := func() (n int) {
		for _, g := range w.signals(t) {
			if g.Kind == change.SignalRepair {
				n++
			}
		}
		return n
	}
	for n := range 2 {
		go func() {
			_, out := command(t, w.Env, "verify", "--repair")
			ended <- out
		}()
		Await(t, "a repair to be asked for", func() (bool, error) { return repairing() == n+1, nil })
	}
	mustRun(t, w.Env, "resume", ConfigMaps.ID())
	out := <-ended + <-ended
	wantOnly(t, w.verified(t, 0))
	repairs := map[string]int{}
	for _, r := range w.Read(t).Records {
		if r.Inferred {
			repairs[r.Key]++
		}
	}
	if len(repairs) != 2 || repairs[stale] != 1 || repairs[extra] != 1 {
		t.Errorf("records of repairs, by key: %v\n%s", repairs, out)
	}
}

// While objects are created, changed and deleted fast, verify finds no difference in a table. After one is made, verify finds and
// repairs it. When no exporter runs, verify says how long ago the log was complete.
func TestVerifyWhileObjectsAreDeleted(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds)
	writer.Names = 100
	writer.Fill(90)
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	log := w.AwaitComplete(t, writer, kinds)
	stop := writer.Start(40)
	for range 6 {
		wantOnly(t, w.verified(t, 0))
	}
	namespace, name := change.SplitKey(liveIn(log, w)[0].Key)
	servers.Exec(t, w.Postgres.URL, `insert into kubecdc_log.objects select cluster, api_group, resource, namespace, 'planted',
		api_version, kind, uid, '999999999', time, stream, body from kubecdc_log.objects where namespace = $1 and name = $2 and resource = 'configmaps'`, namespace, name)
	wantOnly(t, w.verified(t, 1), "table extra "+namespace+"/planted")
	wantOnly(t, w.verified(t, 0, "--repair"))
	stop()
	w.AwaitComplete(t, writer, kinds)
	e.Kill()
	killed := time.Now()
	writer.Run(20)
	var all []verify.Result
	_, text := command(t, w.Env, "verify", "-o", "json")
	must(t, json.NewDecoder(strings.NewReader(text[strings.Index(text, "[\n"):])).Decode(&all))
	for _, r := range all {
		if r.Confirmed.IsZero() || r.Confirmed.After(killed) {
			t.Errorf("%s in the %s is said to be confirmed at %s, and the exporter was killed at %s", r.Stream, r.In, r.Confirmed, killed)
		}
	}
}

// Changed rows of the tables objects and changes are found and repaired.
func TestSlowVerifyFindsAndRepairsWhatATableHasWrongly(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	w.Env = w.With("KUBECDC_RESOURCES", Resources([]Kind{ConfigMaps}), "KUBECDC_PROOF_INTERVAL", "1s")
	writer := w.Writer(t, []Kind{ConfigMaps})
	writer.Run(40)
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	log := w.AwaitComplete(t, writer, []Kind{ConfigMaps})
	w.awaitProof(t, ConfigMaps, change.ProofEqual, writer.mark(ConfigMaps))
	wantOnly(t, w.verified(t, 0))
	live := liveIn(log, w)
	sql := servers.Connect(t, w.Postgres.URL)
	spoil := func(object int, statement string) (key string) {
		t.Helper()
		namespace, name := change.SplitKey(live[object].Key)
		tag, err := sql.Exec(t.Context(), statement, namespace, name)
		must(t, err)
		if tag.RowsAffected() == 0 {
			t.Fatalf("%s changed no row of %s", statement, live[object].Key)
		}
		return live[object].Key
	}
	e.Signal(syscall.SIGSTOP) // otherwise it would detect the lost rows by itself, and write them again
	for i, statement := range []string{
		`insert into kubecdc_log.objects select cluster, api_group, resource, namespace, 'planted', api_version, kind, uid, '3', time, stream, body
			from kubecdc_log.objects where namespace = $1 and name = $2`,
		`update kubecdc_log.objects set resource_version = '2' where namespace = $1 and name = $2`,
		`delete from kubecdc_log.objects where namespace = $1 and name = $2`,
	} {
		spoil(i, statement)
	}
	namespace, _ := change.SplitKey(live[0].Key)
	wantOnly(t, w.verified(t, 1), "table extra "+namespace+"/planted", "table stale "+live[1].Key, "table missing "+live[2].Key)
	e.Signal(syscall.SIGCONT)
	wantOnly(t, w.verified(t, 0, "--repair"))
	wantOnly(t, w.verified(t, 0))

	e.Signal(syscall.SIGSTOP)
	const last = ` from kubecdc_log.objects o where (c.namespace, c.name) = ($1, $2) and (o.namespace, o.name) = ($1, $2)
		and c.uid = o.uid and c.resource_version = o.resource_version`
	stale := spoil(3, `update kubecdc_log.changes c set resource_version = '2'`+last)
	changed := spoil(4, `update kubecdc_log.changes c set after = replace(c.after::text, '"pad":"', '"pad":"not what it was')::json`+last)
	missing := spoil(5, `delete from kubecdc_log.changes where namespace = $1 and name = $2`)
	spoil(6, `insert into kubecdc_log.changes select cluster, slot, epoch, batch, 1000000, time, 'c', api_version, api_group, kind, resource, namespace,
		'added', uid, '3', inferred, gap, stream, null, after, happened, happened_from, managers, fields_changed, written
		from kubecdc_log.changes c where namespace = $1 and name = $2 and op <> 'd' limit 1`)
	namespace, _ = change.SplitKey(live[6].Key)
	wantOnly(t, w.verified(t, 1), "changes stale "+stale, "changes changed "+changed, "changes missing "+missing, "changes extra "+namespace+"/added")
	wantOnly(t, w.verified(t, 1, "--identities"), "changes stale "+stale, "changes missing "+missing, "changes extra "+namespace+"/added")
	e.Signal(syscall.SIGCONT)
	wantOnly(t, w.verified(t, 0, "--repair"))
	wantOnly(t, w.verified(t, 0))
}
