package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// The log answers for the past like the API server's own exact reads, at 200 random revisions. They include a gap that was
// recovered, and a gap that was compacted in part. For the latter the log says what may be missing.
func TestThePastInAFile(t *testing.T) {
	t.Parallel()
	testThePast(t, NewFileWorld(t))
}

func TestSlowThePastInKafka(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testThePast(t, NewWorld(t))
}

func TestSlowThePastInPostgres(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testThePast(t, postgresWorld(t, servers.Lend(t), servers.PostgresOptions{}))
}

// pastSample is a collection that the API server returned at a past revision.
type pastSample struct {
	kind     Kind
	revision int64
	objects  map[string]any // by key
}

type pastTest struct {
	*World
	t       *testing.T
	writer  *Writer
	random  *rand.Rand
	from    int64 // the first revision at which samples are taken
	samples []pastSample
}

func testThePast(t *testing.T, w *World) {
	InstallWidgets(t, w.Kube.Config)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := &pastTest{World: w, t: t, writer: NewWriter(t, w.Kube.Config, seed, Kinds), random: rand.New(rand.NewPCG(seed, 5))}
	p.writer.Fill(25)
	w.Env = w.With("KUBECDC_BATCH_MAX_CHANGES", "1") // so that the first lists take a hundred batches, like large lists
	e := StartExporter(t, "before the gaps", w.Env).AwaitReady(t)
	log := w.AwaitComplete(t, p.writer, Kinds)
	for _, kind := range Kinds {
		p.from = max(p.from, log.SnapshotEnd(kind.ID()))
	}
	p.writer.Run(120)
	w.AwaitComplete(t, p.writer, Kinds)
	p.sample(70)
	e.Kill()
	p.writer.Run(60)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	e = StartExporter(t, "after a gap", w.Env)
	w.AwaitComplete(t, p.writer, Kinds)
	p.sample(60)
	e.Kill()
	p.from = p.revision()
	p.writer.Run(60)
	p.sample(40)
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, w.Kube.RestartAPIServer(context.Background()))
	StartExporter(t, "after a compaction", w.Env)
	w.AwaitComplete(t, p.writer, Kinds)
	p.from = p.revision()
	p.writer.Run(60)
	w.AwaitComplete(t, p.writer, Kinds)
	p.sample(40)
	log = w.AwaitComplete(t, p.writer, Kinds) // every stream is complete up to the last sample's revision

	reader := p.reader()
	p.states(reader, log)
	p.histories(reader, log)
	p.commands(log)
	p.diff()
	p.tail(log)
}

func (p *pastTest) revision() int64 {
	p.t.Helper()
	now, err := p.Kube.Revision(context.Background())
	must(p.t, err)
	return now
}

// sample reads collections at random revisions since p.from.
func (p *pastTest) sample(n int) {
	p.t.Helper()
	now := p.revision()
	for range n {
		s := pastSample{Kinds[p.random.IntN(len(Kinds))], p.from + p.random.Int64N(now-p.from+1), map[string]any{}}
		list, err := dynamic.NewForConfigOrDie(p.Kube.Config).Resource(s.kind.GVR).List(context.Background(),
			metav1.ListOptions{ResourceVersion: fmt.Sprint(s.revision), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		must(p.t, err)
		for _, item := range list.Items {
			raw, _ := item.MarshalJSON()
			s.objects[change.ObjectKey(item.GetNamespace(), item.GetName())] = decoded(p.t, raw)
		}
		p.samples = append(p.samples, s)
	}
}

func decoded(t *testing.T, raw []byte) (object any) {
	t.Helper()
	must(t, json.Unmarshal(raw, &object))
	return object
}

func (p *pastTest) reader() (r sinks.ReadCloser) {
	p.t.Helper()
	var err error
	switch {
	case p.File != "":
		return p.openFile(p.t)
	case p.Mirror != "":
		r = p.openMirror(p.t)
	case p.Kafka != nil:
		r, err = kafka.OpenReader(p.t.Context(), kafka.Config{Brokers: p.Kafka.Brokers, TopicPrefix: p.Prefix, Cluster: "e2e"})
	default:
		r, err = postgres.OpenReader(p.t.Context(), postgres.Config{URL: p.Postgres.URL, Cluster: "e2e"})
	}
	must(p.t, err)
	p.t.Cleanup(func() { r.Close() })
	return r
}

// lost returns the gap of a kind whose changes were compacted in part.
func lost(log *Log, kind Kind) (gap change.Gap) {
	for _, c := range log.Controls {
		if c.Type == change.ControlGap && c.Stream == kind.Stream() && !c.Gap.Complete {
			gap = *c.Gap
		}
	}
	return gap
}

// states compares each sample with the log's answer. Answers must say that they are not complete in the gap that was compacted in
// part, and only there.
func (p *pastTest) states(r sinks.Reader, log *Log) {
	p.t.Helper()
	incomplete := 0
	for _, s := range p.samples {
		states, err := query.ReadStates(p.t.Context(), r, query.Question{Objects: sinks.Objects{Resources: []string{s.kind.ID()}}},
			timeline.Target{Version: change.VersionOf(uint64(s.revision))})
		must(p.t, err)
		state := states[0]
		got := map[string]any{}
		must(p.t, state.Objects(func(o *query.Object) error {
			got[change.ObjectKey(o.Namespace, o.Name)] = decoded(p.t, o.Body)
			return nil
		}))
		gap, version := lost(log, s.kind), change.VersionOf(uint64(s.revision))
		if within := gap.From.Compare(version) < 0 && version.Compare(gap.To) < 0; within != (len(state.Missing) > 0) {
			p.t.Errorf("%s at %d: what may be missing is %v; the gap is %+v", s.kind.ID(), s.revision, state.Missing, gap)
		} else if within {
			incomplete++
			continue
		}
		for key, want := range s.objects {
			if !reflect.DeepEqual(got[key], want) {
				p.t.Errorf("%s %s at %d is %v, want %v", s.kind.ID(), key, s.revision, got[key], want)
			}
			delete(got, key)
		}
		for key := range got {
			p.t.Errorf("%s %s did not exist at %d", s.kind.ID(), key, s.revision)
		}
	}
	p.t.Logf("%d of %d samples lie in the gap that a compaction took from", incomplete, len(p.samples))
	if incomplete == 0 {
		p.t.Error("no sample lies in the gap")
	}
}

// histories compares objects' histories with etcd's, outside of the gap that was compacted in part.
func (p *pastTest) histories(r sinks.Reader, log *Log) {
	p.t.Helper()
	for _, kind := range Kinds {
		from := log.SnapshotEnd(kind.ID())
		events, err := p.Kube.EtcdHistory(context.Background(), kind.Prefix, from+1)
		must(p.t, err)
		gap := lost(log, kind)
		within := func(v change.ResourceVersion) bool { return v.Compare(gap.From) > 0 && v.Compare(gap.To) <= 0 }
		byKey := map[string][]string{}
		for _, e := range events {
			if v := change.VersionOf(uint64(e.Revision)); !within(v) {
				key := strings.TrimPrefix(e.Key, kind.Prefix)
				byKey[key] = append(byKey[key], e.Op+" "+string(v))
			}
		}
		for key, want := range byKey {
			namespace, name := change.SplitKey(key)
			var got []string
			maker := query.EventMaker{Remember: true}
			objects := sinks.Objects{Resources: []string{kind.ID()}, Names: []string{kind.ID() + "/" + name}, Namespace: namespace}
			must(p.t, r.Changes(p.t.Context(), objects.Query(), func(l *sinks.Logged) error {
				e, err := maker.Event(l)
				if err == nil && e.Op == "u" && (len(e.Patch) == 0 || e.Note != "") {
					err = fmt.Errorf("%s %s at %s: patch %v, remark %q", kind.ID(), key, e.ResourceVersion, e.Patch, e.Note)
				}
				if !e.Inferred && e.Op != "r" && !within(e.ResourceVersion) && e.ResourceVersion.Compare(change.VersionOf(uint64(from))) > 0 {
					got = append(got, e.Op+" "+string(e.ResourceVersion))
				}
				return err
			}))
			if !slices.Equal(got, want) {
				p.t.Errorf("the history of %s %s is %v, etcd says %v", kind.ID(), key, got, want)
			}
		}
	}
}

func (p *pastTest) command(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	stdout, stderr, code = offline(p.t, p.Env, args...)
	return code, stdout, stderr
}

// commands runs each command once, like a user.
func (p *pastTest) commands(log *Log) {
	p.t.Helper()
	created := log.Records[slices.IndexFunc(log.Records, func(r Record) bool {
		return r.Op == "c" && r.Resource(p.Prefix) == ConfigMaps.ID()
	})]
	namespace, name := change.SplitKey(created.Key)
	last := p.samples[len(p.samples)-1]
	code, out, errs := p.command("state", "--at", fmt.Sprint(last.revision), last.kind.ID(), "-o", "json", "--full")
	var list struct{ Items []any }
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil || len(list.Items) != len(last.objects) {
		p.t.Errorf("state: exit code %d, %v, %d objects, want %d\n%s", code, err, len(list.Items), len(last.objects), errs)
	}
	if !strings.Contains(errs, "the log is complete from") {
		p.t.Errorf("state does not say how far it is complete: %s", errs)
	}
	if code, out, errs = p.command("state", "--at", "1", last.kind.ID()); code != 1 || out != "" || !strings.Contains(errs, "lacks older ones") {
		p.t.Errorf("state before the log: exit code %d, %s\n%s", code, out, errs)
	}
	if code, _, errs = p.command("state", "--at", "1", last.kind.ID(), "--incomplete"); code != 0 || !strings.Contains(errs, "lacks older ones") {
		p.t.Errorf("an incomplete state: exit code %d\n%s", code, errs)
	}
	if code, out, errs = p.command("history", "configmaps", name, "-n", namespace); code != 0 || !strings.Contains(out, "  by ") {
		p.t.Errorf("history: exit code %d, %s\n%s", code, out, errs)
	}
}

// diff compares the first and the last sample of a kind with the command's output.
func (p *pastTest) diff() {
	p.t.Helper()
	first := p.samples[0]
	last := p.samples[len(p.samples)-1-slices.IndexFunc(reversed(p.samples), func(s pastSample) bool { return s.kind == first.kind })]
	want := 0
	uid := func(o any) string {
		u, _, _ := unstructured.NestedString(o.(map[string]any), "metadata", "uid")
		return u
	}
	for key, before := range first.objects {
		if after := last.objects[key]; after != nil && uid(before) != uid(after) {
			want += 2
		} else if !reflect.DeepEqual(before, after) {
			want++
		}
	}
	for key := range last.objects {
		if first.objects[key] == nil {
			want++
		}
	}
	code, out, errs := p.command("diff", "--from", fmt.Sprint(first.revision), "--to", fmt.Sprint(last.revision), first.kind.ID(), "-o", "json")
	if n := strings.Count(out, "\n"); code != 1 || n != want || !strings.Contains(errs, "differ") {
		p.t.Errorf("diff: exit code %d, %d objects, want %d\n%s\n%s", code, n, want, out, errs)
	}
	if code, out, errs = p.command("diff", "--from", "now", "--to", "now"); code != 0 || out != "" {
		p.t.Errorf("diff of equal states: exit code %d, %s\n%s", code, out, errs)
	}
	if code, out, errs = p.command("diff", "--from", "1h"); code != 2 || out != "" || !strings.Contains(errs, "no complete list of it by then") {
		p.t.Errorf("diff from before the log: exit code %d, %s\n%s", code, out, errs)
	}
}

func reversed(samples []pastSample) []pastSample {
	samples = slices.Clone(samples)
	slices.Reverse(samples)
	return samples
}

// tail reads all records from the first batch on, then new ones.
func (p *pastTest) tail(log *Log) {
	p.t.Helper()
	want := 0
	for _, r := range log.Records {
		if r.Op == "u" && r.Resource(p.Prefix) == Deployments.ID() && strings.HasPrefix(r.Key, "default/") {
			want++
		}
	}
	first := log.Controls[slices.IndexFunc(log.Controls, func(c change.Control) bool { return c.Type == change.ControlSnapshotBegin })]
	since := time.UnixMilli(first.TimeMs).Add(-time.Second).UTC().Format(time.RFC3339)
	code, out, errs := p.command("tail", "--since", since, "--follow=false", "deployments", "-n", "default", "-o", "json", "--where",
		`op == "u" && after.metadata.name != "" && before.spec.replicas >= 0`)
	if n := strings.Count(out, "\n"); code != 0 || n != want {
		p.t.Errorf("tail: exit code %d, %d changes, want %d\n%s", code, n, want, errs)
	}
	if code, _, errs = p.command("tail", "--where", "after.x +"); code != 2 || !strings.Contains(errs, "--where") {
		p.t.Errorf("tail with a wrong expression: exit code %d\n%s", code, errs)
	}
	cmd := Command(p.t, p.Env, "tail", "configmaps", "-o", "diff")
	shown := &child.Output{}
	cmd.Stdout, cmd.Stderr = shown, shown
	running, err := child.Start(cmd)
	must(p.t, err)
	defer running.Kill()
	Await(p.t, "the tail to show a change", func() (bool, error) {
		p.writer.mark(ConfigMaps)
		return strings.Contains(string(shown.Bytes()), "configmaps default/mark"), nil
	})
}
