package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// offline runs the exporter with arguments, without a kubeconfig, and returns its output and its exit code.
func offline(t testing.TB, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	env = withSettings(env, "KUBECDC_LOG_FORMAT", "text")
	delete(env, "KUBECONFIG") // KUBECDC_CLUSTER replaces it
	c := Command(t, env, args...)
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	_ = c.Run()
	return out.String(), errors.String(), c.ProcessState.ExitCode()
}

// succeeds runs a command that must succeed, and returns its stdout.
func succeeds(t testing.TB, env map[string]string, args ...string) string {
	t.Helper()
	out, errors, code := offline(t, env, args...)
	if code != 0 {
		t.Fatalf("exporter %s ends with %d:\n%s%s", strings.Join(args, " "), code, out, errors)
	}
	return out
}

// fails runs a command that must fail with a code and a text.
func fails(t testing.TB, env map[string]string, code int, text string, args ...string) {
	t.Helper()
	out, errors, got := offline(t, env, args...)
	if got != code || !strings.Contains(errors, text) {
		t.Errorf("exporter %s ends with %d, not %d, without %q:\n%s%s", strings.Join(args, " "), got, code, text, out, errors)
	}
}

func asJSON[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return v
}

type listedCheckpoint struct {
	Name  string
	Time  time.Time
	Slot  int
	Batch uint64
}

// While the exporter works, earlier checkpoints are listed, shown and compared, and a consumer group is moved to one. The group
// then gets only the records that were logged later.
func TestACheckpointIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, checkpointKinds)
	for name, location := range map[string]string{
		"postgres": w.Postgres.URL, "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db"),
	} {
		t.Run(name, func(t *testing.T) {
			own := *w
			own.Prefix = w.Prefix + "-" + name
			own.Env = w.With("KUBECDC_CLUSTER", own.Prefix, "KUBECDC_KAFKA_TOPIC_PREFIX", own.Prefix, "KUBECDC_CHECKPOINT", location,
				"KUBECDC_RESOURCES", Resources(checkpointKinds))
			findCheckpoint(t, &own, writer)
		})
	}
}

var checkpointKinds = []Kind{ConfigMaps, Deployments}

func findCheckpoint(t *testing.T, w *World, writer *Writer) {
	StartExporter(t, w.Prefix, w.Env).AwaitReady(t)
	writer.Run(40)
	w.AwaitComplete(t, writer, checkpointKinds)
	list := func(args ...string) []listedCheckpoint {
		return asJSON[[]listedCheckpoint](t, succeeds(t, w.Env, append([]string{"checkpoints", "list", "-o", "json"}, args...)...))
	}
	var before, after listedCheckpoint
	last := lastBatch(w.controls(t))
	Await(t, "a checkpoint of the first changes", func() (bool, error) {
		all := list("--limit", "1")
		before = all[0]
		return before.Batch >= last, nil
	})
	awaitNextSecond(before.Time)
	writer.Run(40)
	log := w.AwaitComplete(t, writer, checkpointKinds)
	last = lastBatch(log.Controls)
	Await(t, "a checkpoint of the last changes", func() (bool, error) {
		all := list("--limit", "1")
		after = all[0]
		return after.Batch >= last, nil
	})
	wantLists(t, w, list, before)
	wantShown(t, w, log, before, after)
	wantGroupMoved(t, w, before)
	fails(t, w.Env, 2, "is none of: a time", "checkpoints", "show", "tomorrow")
	fails(t, w.Env, 2, "no checkpoint", "checkpoints", "show", "0/999999")
	fails(t, w.Env, 2, "at or before", "checkpoints", "show", "900h")
	fails(t, w.Env, 2, "use: exporter checkpoints show CHECKPOINT|TIME", "checkpoints", "show")
	fails(t, w.Env, 2, "the output is one of", "checkpoints", "list", "-o", "wide")
	anUnknownCluster(t, w)
}

// Commands with the name of another cluster answer nothing, and do not add the cluster to the checkpoint.
func anUnknownCluster(t *testing.T, w *World) {
	for _, command := range []string{"history configmaps a", "state --at now configmaps", "diff --from now", "tail --follow=false",
		"replay --from start --to-stdout"} {
		want := 1
		if strings.HasPrefix(command, "diff") { // there 1 means a difference
			want = 2
		}
		fails(t, w.Env, want, `has nothing of cluster "other"`, append(strings.Fields(command), "--cluster", "other")...)
	}
	commands := []string{"checkpoints list"}
	if strings.HasPrefix(w.Env["KUBECDC_CHECKPOINT"], "postgres:") {
		commands = append(commands, "pause pods", "signals list", "forget", "snapshot pods", "checkpoints list")
	}
	for _, command := range commands {
		args := append(strings.Fields(command), "--cluster", "other", "--kubeconfig", w.Env["KUBECONFIG"])
		fails(t, w.Env, 1, `no checkpoint of cluster "other"`, args...)
	}
}

func lastBatch(controls []change.Control) (last uint64) {
	for _, c := range controls {
		last = max(last, c.Batch)
	}
	return last
}

// awaitNextSecond waits until the next checkpoint is another row of the history.
func awaitNextSecond(t time.Time) { time.Sleep(time.Until(t.Truncate(time.Second).Add(time.Second))) }

func wantLists(t *testing.T, w *World, list func(...string) []listedCheckpoint, before listedCheckpoint) {
	t.Helper()
	all := list("--limit", "0")
	for i := range all[1:] {
		if all[i].Time.Before(all[i+1].Time) || all[i].Batch < all[i+1].Batch {
			t.Fatalf("the list is not ordered: %+v", all)
		}
	}
	stamp := before.Time.Format(time.RFC3339Nano)
	if got := list("--until", stamp); got[0] != before {
		t.Errorf("the last checkpoint until %s is %+v, not %+v", stamp, got[0], before)
	}
	if got := list("--since", stamp, "--limit", "0"); got[len(got)-1] != before {
		t.Errorf("the first checkpoint since %s is %+v, not %+v", stamp, got[len(got)-1], before)
	}
	if table := succeeds(t, w.Env, "checkpoints", "list", "--limit", "0"); strings.Count(table, "\n") < len(all)+1 ||
		!strings.Contains(table, before.Name+" ") {
		t.Errorf("the table is\n%s", table)
	}
}

func wantShown(t *testing.T, w *World, log *Log, before, after listedCheckpoint) {
	t.Helper()
	type shown struct {
		Name      string
		Positions []change.Position
		Offsets   change.Offsets
	}
	byName := succeeds(t, w.Env, "checkpoints", "show", before.Name, "-o", "json")
	byTime := succeeds(t, w.Env, "checkpoints", "show", before.Time.Format(time.RFC3339Nano), "-o", "json")
	if byName != byTime {
		t.Errorf("by name it is\n%s\nby time\n%s", byName, byTime)
	}
	found := asJSON[shown](t, byName)
	want := map[change.StreamID]change.ResourceVersion{}
	for _, c := range log.Controls {
		for _, p := range c.Positions {
			if c.Batch <= before.Batch {
				want[p.Stream] = p.ResourceVersion
			}
		}
	}
	for _, p := range found.Positions {
		if want[p.Stream] != p.ResourceVersion {
			t.Errorf("%s is at %s in checkpoint %s, in the log at %s", p.Stream, p.ResourceVersion, before.Name, want[p.Stream])
		}
		delete(want, p.Stream)
	}
	if len(want) > 0 {
		t.Errorf("checkpoint %s lacks %v", before.Name, want)
	}
	later := asJSON[shown](t, succeeds(t, w.Env, "checkpoints", "show", after.Name, "-o", "json"))
	for topic, partitions := range later.Offsets {
		for p, next := range partitions {
			if was := found.Offsets[topic][p]; was > next {
				t.Errorf("%s/%d moved from %d to %d", topic, p, was, next)
			}
		}
	}
}

func wantGroupMoved(t *testing.T, w *World, before listedCheckpoint) {
	t.Helper()
	var topics []string
	for _, k := range checkpointKinds {
		topics = append(topics, w.Prefix+"."+k.ID())
	}
	want := consume(t, w.Kafka.Brokers, "", topics, func(r *kgo.Record) bool { return batchOf(r) > before.Batch })
	replayed := succeeds(t, w.Env, "replay", "--from", before.Name, "--to-stdout", "--execute")
	if n := strings.Count(replayed, "\n"); n != len(want) {
		t.Errorf("a replay from checkpoint %s has %d records, not %d", before.Name, n, len(want))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...), kgo.ConsumerGroup("readers"), kgo.ConsumeTopics(topics...),
		kgo.ClientID("search-1"))
	must(t, err)
	defer client.Close()
	client.PollFetches(t.Context())
	move := []string{"checkpoints", "offsets", before.Name, "--group", "readers"}
	fails(t, w.Env, 1, "consumer group readers has members: search-1 on /127.0.0.1", append(move, "--execute")...)
	must(t, client.CommitUncommittedOffsets(t.Context()))
	client.Close()
	plan := asJSON[[]struct {
		Topic     string
		Partition int32
		New       int64
	}](t, succeeds(t, w.Env, append(move, "-o", "json")...))
	succeeds(t, w.Env, append(move, "--execute")...)
	admin, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...))
	must(t, err)
	defer admin.Close()
	committed, err := kadm.NewClient(admin).FetchOffsets(t.Context(), "readers")
	must(t, err)
	for _, p := range plan {
		if o, ok := committed.Lookup(p.Topic, p.Partition); !ok || o.At != p.New {
			t.Errorf("the plan has %+v, the group %+v", p, o)
		}
	}
	got := consume(t, w.Kafka.Brokers, "readers", topics, func(*kgo.Record) bool { return true })
	if len(got) != len(want) {
		t.Fatalf("the group gets %d records, not the %d after the checkpoint", len(got), len(want))
	}
	for moment := range want {
		if got[moment] == "" {
			t.Errorf("the group does not get %s", moment)
		}
	}
	must(t, deleteAll(admin, topics[0], 0))
	fails(t, w.Env, 1, "nothing was changed", append(move, "--execute")...)
	out, _, _ := offline(t, w.Env, append(move, "--execute", "--incomplete")...)
	if !strings.Contains(out, "before the log's start") {
		t.Errorf("the plan does not say what is gone:\n%s", out)
	}
	fails(t, w.Env, 2, "--group", "checkpoints", "offsets", before.Name)
	fails(t, w.Env, 2, "the log has the topics", append(move, "--topic", "nonsense")...)
}

// deleteAll removes all records of a partition.
func deleteAll(client *kgo.Client, topic string, partition int32) error {
	end, err := kadm.NewClient(client).ListEndOffsets(context.Background(), topic)
	if err != nil {
		return err
	}
	o, _ := end.Lookup(topic, partition)
	_, err = kadm.NewClient(client).DeleteRecords(context.Background(), kadm.Offsets{topic: {partition: {Topic: topic,
		Partition: partition, At: o.Offset}}})
	return err
}

func batchOf(r *kgo.Record) uint64 {
	for _, h := range r.Headers {
		if h.Key == change.HeaderBatch {
			n, _ := strconv.ParseUint(string(h.Value), 10, 64)
			return n
		}
	}
	return 0
}

// consume reads topics to their present end, from a group's offsets or from the start. It returns the wanted records by topic,
// partition and offset.
func consume(t testing.TB, brokers []string, group string, topics []string, wanted func(*kgo.Record) bool) map[string]string {
	t.Helper()
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ConsumeTopics(topics...)}
	if group != "" {
		options = append(options, kgo.ConsumerGroup(group), kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(options...)
	must(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListCommittedOffsets(ctx, topics...)
	must(t, err)
	left := map[kafkatopics.Partition]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[kafkatopics.Partition{Topic: o.Topic, Number: o.Partition}] = o.Offset
		}
	})
	if group != "" {
		committed, err := admin.FetchOffsets(ctx, group)
		must(t, err)
		committed.Each(func(o kadm.OffsetResponse) {
			if o.At >= left[kafkatopics.Partition{Topic: o.Topic, Number: o.Partition}] {
				delete(left, kafkatopics.Partition{Topic: o.Topic, Number: o.Partition})
			}
		})
	}
	found := map[string]string{}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		must(t, ctx.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			p := kafkatopics.Partition{Topic: r.Topic, Number: r.Partition}
			if r.Offset >= left[p]-1 {
				delete(left, p)
			}
			if !r.Attrs.IsControl() && wanted(r) {
				found[fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)] = string(r.Key)
			}
		})
	}
	return found
}
