package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// A question about the state at a time is answered correctly or refused. Times are in normal operation, in a suspension of the
// exporter, and in outages whose changes are delivered, recovered, or lost to a compaction. Others are in a pause, around the
// removal of a resource, and after the last position. Others are between the end of a stream and its next first list.
func TestSlowTimesInKafka(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testTimes(t, NewFragileWorld(t))
}

func TestTimesInAFile(t *testing.T) {
	t.Parallel()
	testTimes(t, NewFileWorld(t))
}

func TestSlowTimesInPostgres(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testTimes(t, postgresWorld(t, servers.Lend(t), servers.PostgresOptions{}))
}

// momentSample is the state of a kind at a time.
type momentSample struct {
	phase string
	kind  Kind
	time  time.Time
	known map[string]string // versions by key
	list  string            // resourceVersion of the list
}

type timesTest struct {
	*World
	t       *testing.T
	writer  *Writer
	kinds   []Kind
	began   map[string]map[string]string // the cluster's earlier objects, by kind
	random  *rand.Rand
	samples []momentSample
}

func testTimes(t *testing.T, w *World) {
	InstallWidgets(t, w.Kube.Config)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := &timesTest{World: w, t: t, kinds: Kinds, writer: NewWriter(t, w.Kube.Config, seed, Kinds), random: rand.New(rand.NewPCG(seed, 9)),
		began: map[string]map[string]string{}}
	for _, kind := range Kinds {
		p.began[kind.ID()] = p.versions(kind)
	}
	p.writer.Fill(5)
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	w.AwaitComplete(t, p.writer, Kinds)
	p.phase("live", 5)
	for range 2 { // deletions in the meantime are read when the exporter goes on
		e.Signal(syscall.SIGSTOP)
		p.phase("suspended", 2)
		e.Signal(syscall.SIGCONT)
		w.AwaitComplete(t, p.writer, Kinds)
		p.phase("live", 2)
	}
	slowly(t, w, func() { p.phase("slow sink", 4) })
	w.AwaitComplete(t, p.writer, Kinds)
	p.phase("live", 2)
	e.Kill()
	p.phase("outage", 4)
	e = StartExporter(t, "after an outage", w.Env)
	w.AwaitComplete(t, p.writer, Kinds)
	e.Kill()
	p.phase("recovered", 4)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	e = StartExporter(t, "after a gap", w.Env)
	w.AwaitComplete(t, p.writer, Kinds)
	mustRun(t, w.Env, "pause", ConfigMaps.ID())
	p.phase("pause", 4)
	mustRun(t, w.Env, "resume", ConfigMaps.ID())
	w.AwaitComplete(t, p.writer, Kinds)
	e.Kill()
	p.phase("lost", 4)
	must(t, w.Kube.Compact(context.Background(), 0))
	must(t, w.Kube.RestartAPIServer(context.Background()))
	e = StartExporter(t, "after a compaction", w.Env)
	w.AwaitComplete(t, p.writer, Kinds)
	p.phase("after", 2)
	e.Signal(syscall.SIGTERM)
	e.Wait(t)
	p.forget(ConfigMaps)
	e = StartExporter(t, "selected again", w.Env)
	w.AwaitComplete(t, p.writer, Kinds)
	p.phase("again", 2)
	w.AwaitComplete(t, p.writer, Kinds)
	RemoveWidgets(t, w.Kube.Config)
	awaitControls(t, w, 1, Widgets.Stream(), change.ControlStreamEnd)
	p.kinds = p.kinds[:4]
	p.writer = NewWriter(t, w.Kube.Config, seed+1, p.kinds)
	p.phase("removed", 2)
	w.AwaitComplete(t, p.writer, p.kinds)
	e.Kill()
	p.phase("future", 2)
	p.judge()
}

// slowly makes the sink take seconds for each batch: Postgres by a trigger, Kafka by the suspension of its broker. A file is never
// slow.
func slowly(t *testing.T, w *World, do func()) {
	t.Helper()
	switch {
	case w.Kafka != nil:
		must(t, w.Kafka.Pause())
		defer func() { must(t, w.Kafka.Resume()) }()
	case w.File == "":
		servers.Exec(t, w.Postgres.URL, `create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(2); return null; end';
			create trigger slow after insert on kubecdc_log.batches for each statement execute function slow()`)
		defer servers.Exec(t, w.Postgres.URL, "drop function slow cascade")
	}
	do()
}

// phase writes and takes samples, at full seconds, which people name, and in between. Samples in between have no answer in an
// outage, since objects have times in seconds.
func (p *timesTest) phase(name string, n int) {
	p.t.Helper()
	for i := range n {
		p.writer.Run(3 + p.random.IntN(10))
		sampled := time.Now()
		if i%2 == 0 || p.random.IntN(3) > 0 {
			sampled = sampled.Truncate(time.Second).Add(time.Second)
			time.Sleep(time.Until(sampled)) // the sampled moment
		}
		for _, kind := range p.kinds {
			known, list := p.versionsAt(kind)
			p.samples = append(p.samples, momentSample{name, kind, sampled, known, list})
		}
	}
}

func (p *timesTest) versions(kind Kind) map[string]string {
	p.t.Helper()
	known, _ := p.versionsAt(kind)
	return known
}

// versionsAt also returns the list's resourceVersion.
func (p *timesTest) versionsAt(kind Kind) (known map[string]string, list string) {
	p.t.Helper()
	all, err := dynamic.NewForConfigOrDie(p.Kube.Config).Resource(kind.GVR).List(context.Background(), metav1.ListOptions{})
	must(p.t, err)
	known = map[string]string{}
	for _, item := range all.Items {
		known[change.ObjectKey(item.GetNamespace(), item.GetName())] = item.GetResourceVersion()
	}
	return known, all.GetResourceVersion()
}

// forget ends the stream of a kind and forgets it.
func (p *timesTest) forget(kind Kind) {
	p.t.Helper()
	others := slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k == kind })
	runFor(p.t, p.With("KUBECDC_RESOURCES", Resources(others)), func() {
		awaitControls(p.t, p.World, 1, kind.Stream(), change.ControlStreamEnd)
		p.phase("deselected", 2)
		p.AwaitComplete(p.t, p.writer, others)
	})
	mustRun(p.t, p.With("KUBECDC_RESOURCES", Resources(others)), "forget", string(kind.Stream()))
}

func (p *timesTest) judge() {
	p.t.Helper()
	reader := (&pastTest{World: p.World, t: p.t}).reader()
	asked, answered := map[string]int{}, map[string]int{}
	late := p.late()
	for _, s := range p.samples {
		for _, logged := range []bool{false, true} {
			target := timeline.TargetOf(moment.Moment{Time: s.time}, logged)
			states, err := query.ReadStates(p.t.Context(), reader, query.Question{Objects: sinks.Objects{Resources: []string{s.kind.ID()}}}, target)
			must(p.t, err)
			if logged && len(states[0].Missing) == 0 {
				s.known = p.stateAt(s.kind, states[0].Coverage[0].At)
			}
			name := fmt.Sprint(s.phase, map[bool]string{true: " (logged)"}[logged])
			missing := len(states[0].Missing) > 0
			if missing && late(s) {
				continue
			}
			if asked[name]++; missing {
				continue
			}
			answered[name]++
			p.compare(name, s, states[0])
		}
	}
	for name, n := range asked {
		p.t.Logf("%s: %d of %d are answered", name, answered[name], n)
	}
	for _, name := range []string{"live", "outage", "recovered", "pause", "live (logged)", "outage (logged)",
		"after (logged)", "again (logged)"} {
		if answered[name] == 0 && asked[name] > 0 {
			p.t.Errorf("nothing is answered: %s", name)
		}
	}
	if n := answered["future"]; n > 0 {
		p.t.Errorf("%d moments after the last position are answered", n)
	}
}

// late finds samples for which the log says that the machine was too slow.
func (p *timesTest) late() func(momentSample) bool {
	p.t.Helper()
	controls := p.controls(p.t)
	return func(s momentSample) bool {
		return slices.ContainsFunc(controls, func(c change.Control) bool {
			since, read := time.UnixMilli(c.SinceMs).Truncate(time.Second), time.UnixMilli(c.TimeMs)
			return c.Type == change.ControlBehind && c.Stream == s.kind.Stream() && !s.time.Before(since) && !s.time.After(read)
		})
	}
}

// stateAt returns the log's state at a revision, by etcd's own history.
func (p *timesTest) stateAt(kind Kind, version change.ResourceVersion) map[string]string {
	p.t.Helper()
	events, err := p.Kube.EtcdHistory(context.Background(), kind.Prefix, 1)
	must(p.t, err)
	known := maps.Clone(p.began[kind.ID()])
	for _, e := range events {
		key := strings.TrimPrefix(e.Key, kind.Prefix)
		switch v := change.VersionOf(uint64(e.Revision)); {
		case v.Compare(version) > 0:
		case e.Op == "d":
			delete(known, key)
		default:
			known[key] = string(v)
		}
	}
	return known
}

func (p *timesTest) compare(name string, s momentSample, state *query.State) {
	p.t.Helper()
	got := map[string]string{}
	must(p.t, state.Objects(func(o *query.Object) error {
		got[change.ObjectKey(o.Namespace, o.Name)] = string(o.ResourceVersion)
		return nil
	}))
	for key, want := range s.known {
		if got[key] != want {
			p.t.Errorf("%s: %s %s at %s is %q, and was %q", name, s.kind.ID(), key, s.time, got[key], want)
		}
		delete(got, key)
	}
	for key := range got {
		p.t.Errorf("%s: %s %s did not exist at %s", name, s.kind.ID(), key, s.time)
	}
}
