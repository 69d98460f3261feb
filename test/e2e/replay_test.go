package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// replayLog is a log that a sink has written, without a cluster.
type replayLog struct {
	brokers []string
	prefix  string
	env     map[string]string
	sink    *kafka.Sink
	log     sinks.Log
	batch   change.Batch
	objects map[string][]byte // the last body by name
	rv      int
}

func newReplayLog(t testing.TB) *replayLog {
	t.Helper()
	l := &replayLog{brokers: servers.SharedKafka(t).Brokers, prefix: servers.UniqueName(), objects: map[string][]byte{}}
	l.env = map[string]string{"KUBECDC_CLUSTER": "east", "KUBECDC_SINK": "kafka", "KUBECDC_KAFKA_BROKERS": strings.Join(l.brokers, ","),
		"KUBECDC_KAFKA_TOPIC_PREFIX": l.prefix, "KUBECDC_KAFKA_PARTITIONS": "3", "KUBECDC_LOG_FORMAT": "json"}
	var err error
	l.sink, err = kafka.New(kafka.Config{Brokers: l.brokers, TopicPrefix: l.prefix, Cluster: "east", Partitions: 3})
	must(t, err)
	t.Cleanup(func() { _ = l.sink.Close() })
	opened, err := l.sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	must(t, err)
	l.log, l.batch = opened.Log, change.Batch{Epoch: 1}
	t.Cleanup(func() { _ = l.log.Close() })
	return l
}

var (
	replayPods  = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	replayNodes = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
)

// write makes n changes of a stream's objects: they are created, changed and deleted, again and again.
func (l *replayLog) write(t testing.TB, s *change.Stream, n int) {
	t.Helper()
	for n > 0 {
		l.batch.Changes = l.batch.Changes[:0]
		for range min(n, 1000) {
			l.batch.Changes = append(l.batch.Changes, l.next(s))
			n--
		}
		l.batch.Seq++
		l.batch.Positions = []change.Position{{Stream: s.ID(), ResourceVersion: change.VersionOf(uint64(l.rv)), Time: time.Now().UTC()}}
		_, err := l.log.Write(t.Context(), &l.batch)
		must(t, err)
	}
}

func (l *replayLog) next(s *change.Stream) change.Change {
	l.rv++
	name := fmt.Sprintf("%s-%d", s.Resource.Plural, l.rv*7919%2003)
	c := change.Change{Stream: s, Name: name, UID: "uid-" + name, ResourceVersion: change.VersionOf(uint64(l.rv)), Time: time.Now()}
	if s.Resource.Namespaced {
		c.Namespace = "shop"
	}
	c.Op, c.Before = change.Update, l.objects[name]
	c.After = fmt.Appendf(nil, `{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"labels":{"third":"%t"},"resourceVersion":"%d"},"pad":"%s"}`,
		s.Resource.Kind, name, l.rv%3 == 0, l.rv, strings.Repeat("x", 300))
	switch {
	case c.Before == nil:
		c.Op = change.Create
	case l.rv%5 == 0:
		c.Op, c.After = change.Delete, nil
	}
	l.objects[name] = c.After
	return c
}

// byObject has the records of each object, in order.
type byObject map[string][]string

// recordsIn reads all data topics of a prefix. It returns the replay's header separately from the other headers.
func (l *replayLog) recordsIn(t testing.TB, prefix string, resources ...string) (byObject, map[string]bool) {
	t.Helper()
	all, replays := byObject{}, map[string]bool{}
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...))
	must(t, err)
	defer client.Close()
	var names []string
	for _, r := range resources {
		names = append(names, prefix+"."+r)
	}
	AwaitMarkers(t, l.brokers, prefix)
	consume(t, l.brokers, "", names, func(r *kgo.Record) bool {
		text := fmt.Sprintf("%d/%d %s", r.Partition, r.Timestamp.UnixMilli(), r.Value)
		if r.Value == nil {
			text = "tombstone"
		}
		for _, h := range r.Headers {
			if h.Key == change.HeaderReplay {
				replays[string(h.Value)] = true
				continue
			}
			text += " " + h.Key + "=" + string(h.Value)
		}
		key := strings.TrimPrefix(r.Topic, prefix) + string(r.Key)
		all[key] = append(all[key], text)
		return false
	})
	return all, replays
}

func wantSameRecords(t testing.TB, got, want byObject) {
	t.Helper()
	records := 0
	for key, texts := range want {
		records += len(texts)
		if !slices.Equal(got[key], texts) {
			t.Fatalf("the log has of %s\n%.600q, not\n%.600q", key, got[key], texts)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("it has %d objects, not %d", len(got), len(want))
	}
	t.Logf("%d objects, %d records", len(want), records)
}

// A replay of 10,000 records is killed twice with kill -9, in a transaction and after one. No record is lost, and none is there twice.
func TestAReplayIsWrittenOnce(t *testing.T) {
	t.Parallel()
	l := newReplayLog(t)
	l.write(t, replayPods, 9000)
	l.write(t, replayNodes, 1000)
	to := l.prefix + "-again"
	killReplay(t, l, to, failpoint.DataProduced+":3", "--from", "start") // its transaction is open
	begun := ReadControls(t, l.brokers, to)
	id := begun[0].Replay.ID
	killReplay(t, l, to, failpoint.Written+":1", "--resume", id)
	l.write(t, replayPods, 1000) // not a part of the replay
	out := succeeds(t, l.env, "replay", "--to-prefix", to, "--execute", "--resume", id)
	t.Log(out)
	want, _ := l.recordsIn(t, l.prefix, "pods", "nodes")
	for key, texts := range want { // without records after the plan
		want[key] = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(text, "batch=11") })
		if len(want[key]) == 0 {
			delete(want, key)
		}
	}
	got, replays := l.recordsIn(t, to, "pods", "nodes")
	wantSameRecords(t, got, want)
	if len(replays) != 1 || !replays[id] {
		t.Errorf("the records are of the replays %v, not of %s", replays, id)
	}
	controls := ReadControls(t, l.brokers, to)
	last := controls[len(controls)-1]
	if controls[0].Type != change.ControlReplayBegin || last.Type != change.ControlReplayEnd || last.Replay.Records != 10_000 {
		t.Errorf("the control records begin with %+v and end with %+v", controls[0], last)
	}
	fails(t, l.env, 2, "has the records of other replays ("+id+")", "replay", "--from", "start", "--to-prefix", to, "--execute")
	if _, stderr, _ := offline(t, l.env, "replay", "--resume", id, "--to-prefix", to); !strings.Contains(stderr, "had ended already") {
		t.Errorf("resumed after its end it says %s", stderr)
	}
}

// A topic that refuses the records' times ends the replay with an error that says what to set. None of these records is reported as
// written.
func TestSlowAReplayThatATopicRefuses(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	l := newReplayLog(t)
	l.write(t, replayPods, 100)
	to, least := l.prefix+"-refused", "1"
	_, err := admin(t, &World{Kafka: servers.SharedKafka(t)}).CreateTopic(t.Context(), 3, 1, map[string]*string{"message.timestamp.before.max.ms": &least}, to+".pods")
	must(t, err)
	fails(t, l.env, 1, "message.timestamp.type=LogAppendTime", "replay", "--from", "start", "--to-prefix", to, "--execute")
	if records, _ := l.recordsIn(t, to, "pods"); len(records) > 0 {
		t.Errorf("the topic has records of %d objects", len(records))
	}
}

// killReplay runs a replay, which is killed with kill -9 at a failpoint.
func killReplay(t *testing.T, l *replayLog, to, point string, args ...string) {
	t.Helper()
	c := Command(t, withSettings(l.env, "KUBECDC_FAILPOINT", point), append([]string{"replay", "--to-prefix", to, "--execute"}, args...)...)
	if out, err := c.CombinedOutput(); c.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the replay was not killed at %s: %v\n%s", point, err, out)
	}
}

// A replay to standard output and to a database has the log's records, and only the selected ones.
func TestAReplayToOtherPlaces(t *testing.T) {
	t.Parallel()
	l := newReplayLog(t)
	l.write(t, replayPods, 3000)
	l.write(t, replayNodes, 500)
	want, _ := l.recordsIn(t, l.prefix, "pods", "nodes")
	t.Run("stdout", func(t *testing.T) {
		got, _ := linesOf(t, l, succeeds(t, l.env, "replay", "--from", "start", "--to-stdout", "--execute"))
		wantSameRecords(t, got, want)
	})
	t.Run("postgres", func(t *testing.T) { replayToPostgres(t, l) })
	t.Run("file", func(t *testing.T) { replayToFile(t, l) })
	t.Run("selected", func(t *testing.T) { replaySelected(t, l) })
	t.Run("wrong input", func(t *testing.T) { replayWrongly(t, l) })
	t.Run("stopped", func(t *testing.T) { replayStopped(t, l) })
	t.Run("not retained", func(t *testing.T) { replayNotRetained(t, l) })
}

// replayStopped demands that Ctrl-C ends a replay with the exit code of an unfinished run, and that its output says how to go on.
func replayStopped(t *testing.T, l *replayLog) {
	to := l.prefix + "-stopped"
	c := Command(t, l.env, "replay", "--from", "start", "--to-prefix", to, "--execute", "--rate", "100")
	log := &child.Output{}
	c.Stdout, c.Stderr = log, log
	p, err := child.Start(c)
	must(t, err)
	defer p.Kill()
	Await(t, "the replay to be under way", func() (bool, error) {
		return len(ReadControls(t, l.brokers, to)) > 1, nil
	})
	must(t, c.Process.Signal(os.Interrupt))
	<-p.Done()
	if code, out := c.ProcessState.ExitCode(), string(log.Bytes()); code != 130 || !strings.Contains(out, "records are written; to go on: exporter replay --resume ") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

type replayedLine struct {
	Topic     string
	Partition int
	Logged    int64 `json:"logged_ms"`
	Headers   map[string]string
	Key       json.RawMessage
	Value     json.RawMessage
}

func linesOf(t *testing.T, l *replayLog, text string) (byObject, []replayedLine) {
	t.Helper()
	all, lines := byObject{}, []replayedLine{}
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		r := asJSON[replayedLine](t, scan.Text())
		value := fmt.Sprintf("%d/%d %s", r.Partition, r.Logged, r.Value)
		if string(r.Value) == "null" {
			value = "tombstone"
		}
		for _, name := range []string{"op", "uid", "resourceVersion", "stream", "namespace", "slot", "epoch", "batch"} {
			if header, ok := r.Headers[name]; ok {
				value += " " + name + "=" + header
			}
		}
		key := strings.TrimPrefix(r.Topic, l.prefix) + string(r.Key)
		all[key] = append(all[key], value)
		lines = append(lines, r)
	}
	return all, lines
}

func replayToPostgres(t *testing.T, l *replayLog) {
	url := servers.Database(t)
	succeeds(t, l.env, "replay", "--from", "start", "--to-postgres", url, "--execute")
	db := servers.Connect(t, url)
	rows, err := db.Query(t.Context(), `select resource, name, body::text, kind, api_version from kubecdc_log.objects`)
	must(t, err)
	objects := map[string][]byte{}
	for name, body := range l.objects {
		if body != nil {
			objects[name] = body
		}
	}
	var resource, name, body, kind, version string
	_, err = pgx.ForEachRow(rows, []any{&resource, &name, &body, &kind, &version}, func() error {
		if string(objects[name]) != body || version != "v1" || kind == "" {
			t.Errorf("%s %s %s %s is %.100s", version, kind, resource, name, body)
		}
		delete(objects, name)
		return nil
	})
	must(t, err)
	if len(objects) > 0 {
		t.Errorf("the table objects lacks %v", slices.Collect(maps.Keys(objects)))
	}
	var changes, distinct int
	must(t, db.QueryRow(t.Context(), `select count(*), count(distinct resource_version) from kubecdc_log.changes`).Scan(&changes, &distinct))
	if changes != 3500 || distinct != 3500 {
		t.Errorf("the table changes has %d rows of %d changes", changes, distinct)
	}
	// A replay that was killed goes on. Its last transactions are removed, as if they had not been written.
	var id string
	must(t, db.QueryRow(t.Context(), `select record->'replay'->>'id' from kubecdc_log.control where type = 'replay-begin'`).Scan(&id))
	for _, table := range []string{"changes", "control"} {
		_, err = db.Exec(t.Context(), `delete from kubecdc_log.`+table+` where batch > 2`)
		must(t, err)
	}
	_, err = db.Exec(t.Context(), `delete from kubecdc_log.batches where seq > 2`)
	must(t, err)
	_, err = db.Exec(t.Context(), `update kubecdc_log.slots set seq = 2`)
	must(t, err)
	succeeds(t, l.env, "replay", "--resume", id, "--to-postgres", url)
	must(t, db.QueryRow(t.Context(), `select count(*), count(distinct resource_version) from kubecdc_log.changes`).Scan(&changes, &distinct))
	if changes != 3500 || distinct != 3500 {
		t.Errorf("after it was resumed the table changes has %d rows of %d changes", changes, distinct)
	}
	env := maps.Clone(l.env)
	env["KUBECDC_SINK"], env["KUBECDC_SINK_POSTGRES"] = "postgres", url
	l.replayBack(t, env, "tables")
}

// replayBack replays a copy of the log into topics, and demands the same number of records of each object.
func (l *replayLog) replayBack(t *testing.T, env map[string]string, from string) {
	t.Helper()
	succeeds(t, env, "replay", "--from", "start", "--to-prefix", l.prefix+"-"+from, "--execute")
	back, _ := l.recordsIn(t, l.prefix+"-"+from, "pods", "nodes")
	want, _ := l.recordsIn(t, l.prefix, "pods", "nodes")
	if len(back) != len(want) {
		t.Errorf("from %s to topics: %d objects, not %d", from, len(back), len(want))
	}
	for key := range want {
		if len(back[key]) != len(want[key]) {
			t.Fatalf("from %s to topics: %s has %d records, not %d", from, key, len(back[key]), len(want[key]))
		}
	}
}

// replayToFile copies the log into a file, asks the file, and replays it.
func replayToFile(t *testing.T, l *replayLog) {
	file := filepath.Join(t.TempDir(), "copy.db")
	succeeds(t, l.env, "replay", "--from", "start", "--to-sqlite", file, "--execute")
	env := maps.Clone(l.env)
	env["KUBECDC_SINK"], env["KUBECDC_CHECKPOINT"] = "sqlite", "sqlite:"+file
	l.replayBack(t, env, "file")
	if out := succeeds(t, env, "state", "pods"); !strings.Contains(out, "pod") {
		t.Errorf("the state that the file has is %.200s", out)
	}
}

func replaySelected(t *testing.T, l *replayLog) {
	for bound, want := range map[string]int{"--from=now": 0, "--to=now": 3500} {
		args := []string{"replay", "--from", "start", bound, "--op", "c,u,d", "--to-stdout", "--execute"}
		_, got := linesOf(t, l, succeeds(t, l.env, args...))
		got = slices.DeleteFunc(got, func(r replayedLine) bool { return r.Headers["op"] == change.OpTombstone })
		if len(got) != want {
			t.Errorf("%s: %d records, not %d", bound, len(got), want)
		}
	}
	for _, tc := range []struct {
		args []string
		want func(r *replayedLine) bool
	}{
		{[]string{"nodes"}, func(r *replayedLine) bool { return r.Headers["stream"] == "nodes" }},
		{[]string{"-n", "shop", "--op", "d"}, func(r *replayedLine) bool {
			return (r.Headers["op"] == "d" || r.Headers["op"] == change.OpTombstone) && r.Headers["stream"] == "pods"
		}},
		{[]string{"pods", "pods-7"}, func(r *replayedLine) bool { return strings.Contains(string(r.Key), `"pods-7"`) }},
		{[]string{"-l", "third=true", "--op", "c"}, func(r *replayedLine) bool {
			return r.Headers["op"] == "c" && strings.Contains(string(r.Value), `"third":"true"`)
		}},
	} {
		_, all := linesOf(t, l, succeeds(t, l.env, "replay", "--from", "start", "--to-stdout", "--execute"))
		all = slices.DeleteFunc(all, func(r replayedLine) bool { return !tc.want(&r) })
		_, got := linesOf(t, l, succeeds(t, l.env, append([]string{"replay", "--from", "start", "--to-stdout", "--execute"}, tc.args...)...))
		if len(got) != len(all) || len(all) == 0 {
			t.Errorf("%v: %d records, not %d", tc.args, len(got), len(all))
		}
	}
	after := func(from string, args ...string) (versions []int) {
		_, got := linesOf(t, l, succeeds(t, l.env, append([]string{"replay", "--from", from, "--to-stdout", "--execute"}, args...)...))
		for _, r := range got {
			if string(r.Value) != "null" {
				n, _ := strconv.Atoi(r.Headers["resourceVersion"])
				versions = append(versions, n)
			}
		}
		slices.Sort(versions)
		return versions
	}
	moment := time.Now()
	l.write(t, replayPods, 700)
	if got := after(moment.Format(time.RFC3339Nano)); len(got) != 700 || got[0] != 3501 {
		t.Errorf("after a time: %d records", len(got))
	}
}

func replayWrongly(t *testing.T, l *replayLog) {
	again := []string{"--to-prefix", l.prefix + "-wrong"}
	for text, args := range map[string][]string{
		"say where the replay begins":                  again,
		"name one place to write to":                   {"--from", "start"},
		`the log has no changes of "podz"`:             append([]string{"--from", "start", "podz"}, again...),
		"has not come yet":                             append([]string{"--from", "2999-01-01T00:00:00Z"}, again...),
		"the operations are c (created)":               append([]string{"--from", "start", "--op", "x"}, again...),
		"--selector":                                   append([]string{"--from", "start", "-l", "a in"}, again...),
		"is none of: a time":                           append([]string{"--from", "tomorrow"}, again...),
		"would write into its topics":                  {"--from", "start", "--to-prefix", l.prefix},
		"choose a prefix that is no part":              {"--from", "start", "--to-prefix", l.prefix + ".sub"},
		"a number of records a second":                 append([]string{"--from", "start", "--rate", "-1"}, again...),
		"there is no replay nonsense":                  append([]string{"--resume", "nonsense"}, again...),
		"can't be read back, so that replay":           {"--resume", "x", "--to-stdout"},
		"the replay has its bounds and":                append([]string{"--resume", "x", "--from", "start"}, again...),
		"is after --to":                                append([]string{"--from", "1s", "--to", "1h"}, again...),
		"a topic must have a name, of letters, digits": {"--from", "start", "--to-prefix", "a b"},
	} {
		fails(t, l.env, 2, text, append(append([]string{"replay"}, args...), "--execute")...)
	}
	fails(t, l.env, 1, "the Kafka to write to", "replay", "--from", "start", "--to-prefix", "a", "--to-brokers", "127.0.0.1:1", "--execute")
	other := newReplayLog(t) // an exporter writes to it
	other.write(t, replayPods, 1)
	fails(t, l.env, 1, "have the log of an exporter", "replay", "--from", "start", "--to-prefix", other.prefix, "--execute")
	out, stderr, code := offline(t, l.env, "replay", "--from", "start", "--to-prefix", l.prefix+"-planned")
	if code != 0 || !strings.Contains(stderr, "nothing was written") || !strings.Contains(out, "total") {
		t.Errorf("without --execute it ends with %d: %s%s", code, out, stderr)
	}
}

func replayNotRetained(t *testing.T, l *replayLog) {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...))
	must(t, err)
	defer client.Close()
	before := time.Now()
	l.write(t, replayPods, 600)
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), l.prefix+".pods")
	must(t, err)
	l.write(t, replayPods, 50)
	_, err = kadm.NewClient(client).DeleteRecords(t.Context(), ends.Offsets())
	must(t, err)
	from := []string{"replay", "--from", before.Format(time.RFC3339Nano), "--to-stdout", "--execute"}
	fails(t, l.env, 1, "pods is complete since", from...)
	_, got := linesOf(t, l, succeeds(t, l.env, append(from, "--incomplete")...))
	changes := 0
	for _, r := range got {
		if string(r.Value) != "null" {
			changes++
		}
	}
	if changes != 50 {
		t.Errorf("--incomplete replays %d changes, not the 50 that are left", changes)
	}
}

// A consumer reads a replay, and goes on in the live topics at the offsets that the replay prints. It has then read etcd's history,
// each change once.
func TestAConsumerGoesOnFromAReplayToTheLiveLog(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(20)
	w.Env["KUBECDC_SLOTS"] = "3"
	StartExporter(t, "live", w.Env).AwaitReady(t)
	stop := writer.Start(100)
	awaitMade(t, writer, writer.Made.Load()+100)
	again := w.Prefix + "-again"
	out := succeeds(t, w.Env, "replay", "--from", "start", "--to-prefix", again, "--execute", "-o", "json")
	next := asJSON[struct{ Next change.Offsets }](t, out).Next
	awaitMade(t, writer, writer.Made.Load()+50)
	stop()
	live := w.AwaitComplete(t, writer, Kinds)
	AwaitMarkers(t, w.Kafka.Brokers, again)
	read := ReadLog(t, w.Kafka.Brokers, again)
	for i := range read.Records {
		read.Records[i].Topic = w.Prefix + strings.TrimPrefix(read.Records[i].Topic, again)
	}
	replayed, later := len(read.Records), 0
	for _, r := range live.Records {
		if r.Offset >= next[r.Topic][int(r.Partition)] {
			read.Records = append(read.Records, r)
			later++
		}
	}
	if replayed == 0 || later == 0 {
		t.Fatalf("%d records are replayed, and %d read later", replayed, later)
	}
	t.Logf("%d records replayed, %d read from the live topics", replayed, later)
	read.Controls = live.Controls
	Judge(t, w.Kube, read, w.Prefix, Kinds).Demand(t, 0)
}
