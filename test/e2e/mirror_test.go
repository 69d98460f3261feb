package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// All questions about times are answered from a mirror of the topics, and it has what they have.
func TestSlowTimesInAMirror(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewFragileWorld(t)
	w.Mirror = filepath.Join(t.TempDir(), "topics.mirror")
	testTimes(t, w)
	compareMirror(t, w)
}

// openMirror brings the mirror of the world's topics up to date.
func (w *World) openMirror(t testing.TB) *sqlite.Reader {
	t.Helper()
	topics := w.topics(t)
	m, err := mirror.Open(t.Context(), topics, mirror.Options{Path: w.Mirror, History: sinks.Forever, Logger: slog.Default()})
	must(t, err)
	must(t, m.Update(t.Context()))
	m.Close()
	file, err := sqlitefile.Share(t.Context(), w.Mirror)
	must(t, err)
	r, err := sqlite.NewReader(t.Context(), file, w.Env["KUBECDC_CLUSTER"])
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (w *World) topics(t testing.TB) *kafka.Reader {
	t.Helper()
	r, err := kafka.OpenReader(t.Context(), kafka.Config{Brokers: w.Kafka.Brokers, TopicPrefix: w.Prefix, Cluster: w.Env["KUBECDC_CLUSTER"]})
	must(t, err)
	return r
}

// compareMirror compares what the topics and their mirror answer. Nobody may write to the topics.
func compareMirror(t *testing.T, w *World) {
	t.Helper()
	compareMirrored(t, w, 0)
}

// compareMirrored is compareMirror for one of several clusters. A batch in the mirror may have the time of another cluster's batch before it,
// which is later by no more than a limit.
func compareMirrored(t *testing.T, w *World, later time.Duration) {
	t.Helper()
	if w.Mirror == "" {
		w.Mirror = filepath.Join(t.TempDir(), "topics.mirror")
	}
	mirrored, topics := w.openMirror(t), w.topics(t)
	defer topics.Close()
	want, got := readAll(t, topics), readAll(t, mirrored)
	if len(want.controls) < 10 || len(want.changes) < 2 {
		t.Fatalf("the log has %d control records and %d objects", len(want.controls), len(want.changes))
	}
	compareLists(t, "control record", want.controls, got.controls)
	for i := range min(len(want.times), len(got.times)) {
		if late := got.times[i].Sub(want.times[i]); late < 0 || late > later {
			t.Errorf("the time of batch %d is %s, want %s", i, got.times[i], want.times[i])
		} else if late > 0 {
			want.moved = append(want.moved, [2]time.Time{want.times[i], got.times[i]})
		}
	}
	for _, object := range slices.Sorted(maps.Keys(want.changes)) {
		compareLists(t, "change of "+object, want.changes[object], got.changes[object])
		delete(got.changes, object)
	}
	for object := range got.changes {
		t.Errorf("the topics have no %s", object)
	}
	for _, id := range want.resources { // a stream without objects has no topic
		if !slices.Contains(got.resources, id) {
			t.Errorf("resources: %v, want %v", got.resources, want.resources)
		}
	}
	for range 50 {
		logged := want.first.Add(time.Duration(rand.Int64N(int64(want.last.Sub(want.first)))))
		if want.isEarlier(logged) {
			continue
		}
		cut, err := topics.CutAt(t.Context(), logged)
		must(t, err)
		mine, err := mirrored.CutAt(t.Context(), logged)
		must(t, err)
		for slot, batch := range cut.Batches {
			if mine.Batches[slot] != batch {
				t.Errorf("the cut at %s has batch %d of slot %d, want %d", logged, mine.Batches[slot], slot, batch)
			}
		}
	}
}

func compareLists(t *testing.T, what string, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		var a, b string
		if i < len(want) {
			a = want[i]
		}
		if i < len(got) {
			b = got[i]
		}
		if a != b {
			t.Errorf("%s %d differs:\n\ttopics: %.1500s\n\tmirror: %.1500s", what, i, a, b)
			return
		}
	}
}

// logContent is all that a reader returns, as text.
type logContent struct {
	controls    []string
	changes     map[string][]string // by object
	resources   []string
	times       []time.Time // when the batches were written
	first, last time.Time
	moved       [][2]time.Time // from when to when the times of batches are moved
}

// isEarlier reports whether a batch that comes later in the log has an earlier time, as clocks of two slots do.
func (c *logContent) isEarlier(than time.Time) bool {
	return slices.ContainsFunc(c.moved, func(m [2]time.Time) bool { return !than.Before(m[0].Add(-time.Millisecond)) && !than.After(m[1]) })
}

func readAll(t *testing.T, r sinks.Reader) *logContent {
	t.Helper()
	c := &logContent{changes: map[string][]string{}}
	ctx := context.Background()
	must(t, r.Controls(ctx, time.Time{}, nil, func(control *change.Control) error {
		if control.Type == change.ControlOpen { // a file has none
			return nil
		}
		own := *control
		own.ClusterUID, own.Version, own.Encoding, own.Bytes, own.Ranges, own.Starts, own.Spread = "", 0, "", 0, nil, nil, nil
		own.Positions = slices.SortedFunc(slices.Values(own.Positions), func(a, b change.Position) int { return cmp.Compare(a.Stream, b.Stream) })
		for i := range own.Positions {
			own.Positions[i].Time = own.Positions[i].Time.Truncate(time.Millisecond)
		}
		if moment := time.UnixMilli(own.TimeMs); own.Type == change.ControlBatch {
			if c.first.IsZero() {
				c.first = moment
			}
			if moment.Before(c.last) { // a file has the time of the batch before
				c.moved = append(c.moved, [2]time.Time{moment, c.last})
				moment = c.last
			}
			c.last, c.times, own.TimeMs = moment, append(c.times, moment), 0
		}
		text, err := json.Marshal(&own)
		c.controls = append(c.controls, string(text))
		return err
	}))
	must(t, r.Changes(ctx, sinks.Query{}, func(l *sinks.Logged) error {
		if l.DeadLetter != "" {
			l.Provenance = change.Provenance{} // a file has it in the object
		}
		object := fmt.Sprintf("%s %s/%s", l.Stream.ID(), l.Namespace, l.Name)
		c.changes[object] = append(c.changes[object], fmt.Sprint(l.Op, l.UID, l.ResourceVersion, l.Inferred, l.Gap, l.Slot, l.Epoch, l.Batch,
			l.Time.UnixMilli(), l.DeadLetter, l.Provenance.Time, l.Provenance.ManagerNames(), string(l.Before), string(l.After)))
		return nil
	}))
	var err error
	c.resources, err = r.Resources(ctx)
	must(t, err)
	slices.Sort(c.resources)
	return c
}

// A mirror is killed at random moments of its filling and following, and the broker now and then. It has what the topics have.
func TestSlowAMirrorIsKilled(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewFragileWorld(t)
	InstallWidgets(t, w.Kube.Config)
	writer := w.Writer(t, Kinds)
	writer.Fill(300)
	StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writer, Kinds)
	home := t.TempDir()
	began := 0
	for round := range 40 {
		s := Command(t, w.With("XDG_STATE_HOME", home), "serve", "--address", "127.0.0.1:0")
		var said child.Output
		s.Stderr = &said
		must(t, s.Start())
		time.Sleep(rand.N(time.Second)) // the fault's moment
		if round%10 == 9 {
			w.Kafka.Kill()
			must(t, w.Kafka.Start(t.Context()))
		}
		writer.Run(20)
		must(t, s.Process.Kill())
		_ = s.Wait()
		began += strings.Count(said.String(), "the mirror begins")
	}
	w.AwaitComplete(t, writer, Kinds)
	files, err := filepath.Glob(filepath.Join(home, "kubecdc", "*.mirror"))
	must(t, err)
	if len(files) != 1 || began < 1 || began > 3 { // it may be killed before it has a batch
		t.Fatalf("the mirror began %d times: %v", began, files)
	}
	w.Mirror = files[0]
	compareMirror(t, w)
}

// exporter serve serves the topics from a mirror, which follows them, and goes on after kill -9. Questions on the command line are answered
// from it as well, up to what the topics have by then.
func TestTopicsAreServed(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(5)
	StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writer, Kinds)
	home := t.TempDir()
	env := w.With("XDG_STATE_HOME", home)
	for range 3 {
		address, kill := w.serveMirror(t, home)
		writer.Run(30)
		w.AwaitComplete(t, writer, Kinds)
		for _, kind := range Kinds {
			want, err := versionsOf(t.Context(), w.Kube.Config, kind)
			must(t, err)
			Await(t, "the served "+kind.ID(), func() (bool, error) {
				got, err := versionsOf(t.Context(), &rest.Config{Host: address}, kind)
				return err == nil && maps.Equal(want, got), nil // at first the mirror may not have come so far
			})
		}
		name := fmt.Sprint("mirrored-", time.Now().UnixNano())
		api := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(ConfigMaps.GVR).Namespace("default")
		_, err := api.Create(t.Context(), sample(ConfigMaps, name, 0, 0), metav1.CreateOptions{})
		must(t, err)
		w.AwaitComplete(t, writer, Kinds)
		out, err := Command(t, env, "history", "cm/"+name).CombinedOutput()
		listed := mustRun(t, env, "logs")
		if err != nil || !strings.Contains(listed, ".mirror") || !strings.Contains(string(out), name) || !strings.Contains(string(out), "# from the mirror of the topics") {
			t.Errorf("history ends with %v:\n%s", err, out)
		}
		kill()
		if out, err := Command(t, env, "history", "cm/"+name).CombinedOutput(); err != nil || !strings.Contains(string(out), name) {
			t.Errorf("without serve, history ends with %v:\n%s", err, out)
		}
	}
}

// versionsOf returns the resourceVersions of the objects of a kind.
func versionsOf(ctx context.Context, config *rest.Config, kind Kind) (known map[string]string, err error) {
	all, err := dynamic.NewForConfigOrDie(config).Resource(kind.GVR).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	known = map[string]string{}
	for _, item := range all.Items {
		known[change.ObjectKey(item.GetNamespace(), item.GetName())] = item.GetResourceVersion()
	}
	return known, nil
}

// Two clusters have logs in the same topics, with the same slots, batches and names. One mirror has both, and serves the other one below
// /clusters/NAME, which begins while it runs. Exporters and the mirror are killed, and begin again.
func TestTopicsOfTwoClustersAreServed(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	other := *w
	other.Kube = w.anotherCluster(t)
	url, err := w.Postgres.CreateDatabase(t.Context(), "other")
	must(t, err)
	other.Env = w.With("KUBECDC_CLUSTER", "other", "KUBECONFIG", other.Kube.Kubeconfig, "KUBECDC_CHECKPOINT", url)
	worlds := map[string]*World{"": w, "/clusters/other": &other}
	writers, exporters := map[string]*Writer{}, map[string]*Exporter{}
	for path, world := range worlds {
		InstallWidgets(t, world.Kube.Config)
		writers[path] = world.Writer(t, Kinds)
		writers[path].Fill(5)
	}
	exporters[""] = StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writers[""], Kinds)
	home := t.TempDir()
	unusedMirror(t, filepath.Join(home, "kubecdc", "gone.mirror"))
	for round := range 3 {
		address, kill := w.serveMirror(t, home)
		if round < 2 {
			exporters["/clusters/other"] = StartExporter(t, "the other exporter", other.Env)
		}
		for path, world := range worlds {
			writers[path].Run(30)
			for _, kind := range Kinds {
				want, err := versionsOf(t.Context(), world.Kube.Config, kind)
				must(t, err)
				Await(t, "the served "+path+" "+kind.ID(), func() (bool, error) {
					got, err := versionsOf(t.Context(), &rest.Config{Host: address + path}, kind)
					return err == nil && maps.Equal(want, got), nil
				})
			}
		}
		Await(t, "the other cluster's history from the mirror", func() (bool, error) {
			out, err := Command(t, other.With("XDG_STATE_HOME", home), "state", "configmaps", "-A").CombinedOutput()
			return err == nil && strings.Contains(string(out), "# from the mirror of the topics"), nil
		})
		out, err := Command(t, other.With("XDG_STATE_HOME", home), "state", "configmaps", "-A", "-o", "json", "--cluster", "*").Output()
		must(t, err)
		for _, cluster := range []string{"other", w.Env["KUBECDC_CLUSTER"]} {
			if !strings.Contains(string(out), fmt.Sprintf(`{"cluster":%q,"apiVersion":"v1","kind":"List"`, cluster)) {
				t.Errorf("the answer lacks cluster %s:\n%.400s", cluster, out)
			}
		}
		if kill(); round < 1 {
			must(t, exporters["/clusters/other"].Cmd.Process.Kill())
			exporters["/clusters/other"].Wait(t)
		}
	}
	for _, e := range exporters {
		must(t, e.Cmd.Process.Kill())
		e.Wait(t)
	}
	AwaitMarkers(t, w.Kafka.Brokers, w.Prefix)
	files, err := filepath.Glob(filepath.Join(home, "kubecdc", "*.mirror"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("the mirror is in %v", files)
	}
	for _, world := range worlds {
		world.Mirror = files[0]
		compareMirrored(t, world, time.Second)
	}
}

// unusedMirror makes a mirror that nobody has filled for a year.
func unusedMirror(t testing.TB, path string) {
	t.Helper()
	file, err := sqlitefile.Own(t.Context(), path)
	must(t, err)
	sink, err := sqlite.New(t.Context(), file, sqlite.Config{Cluster: "gone"})
	must(t, err)
	must(t, sink.WriteSchema(t.Context(), &sinks.Schema{Path: "api/v1", Document: []byte{0}}))
	must(t, sink.Close())
	file.Close()
	must(t, os.Chtimes(path, time.Time{}, time.Now().AddDate(-1, 0, 0)))
}

// serveMirror starts exporter serve, and returns its address.
func (w *World) serveMirror(t testing.TB, home string) (address string, kill func()) {
	t.Helper()
	s := Command(t, w.With("XDG_STATE_HOME", home), "serve", "--address", "127.0.0.1:0")
	var said child.Output
	s.Stderr = &said
	must(t, s.Start())
	kill = func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
	t.Cleanup(kill)
	Await(t, "exporter serve to listen", func() (bool, error) {
		address, _, _ = strings.Cut(regexp.MustCompile(`http://127.0.0.1:\d+/at/`).FindString(said.String()), "/at/")
		return address != "", nil
	})
	return address, kill
}
