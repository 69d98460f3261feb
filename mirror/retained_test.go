package mirror_test

import (
	"context"
	random "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/servers"
)

// topics is a log in Kafka that a test writes.
type topics struct {
	t       *testing.T
	cfg     kafka.Config
	admin   *kadm.Client
	sink    *kafka.Sink
	log     sinks.Log
	batch   uint64
	number  int
	living  map[string]change.Change // by resource and name
	clock   func() time.Time
	history map[uint64][]string // what logged returns of each batch
	upTo    map[uint64]int      // the number of the last change up to each batch
}

func newTopics(t *testing.T) *topics {
	return newTopicsWith(t, nil)
}

func newTopicsWith(t *testing.T, settings map[string]string) *topics {
	w := &topics{t: t, cfg: newConfig(t, servers.SharedKafka(t)), living: map[string]change.Change{}, clock: time.Now, history: map[uint64][]string{}, upTo: map[uint64]int{}}
	w.cfg.Partitions, w.cfg.TopicConfig = 2, settings
	client, err := kgo.NewClient(kgo.SeedBrokers(w.cfg.Brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	w.admin = kadm.NewClient(client)
	w.open(1)
	return w
}

// sibling returns the log of another cluster in the same topics.
func (w *topics) sibling(cluster string) *topics {
	other := *w
	other.cfg.Cluster, other.cfg.ClusterUID, other.batch, other.number = cluster, "uid of "+cluster, 0, 0
	other.living, other.history, other.upTo = map[string]change.Change{}, map[uint64][]string{}, map[uint64]int{}
	other.open(1)
	return &other
}

func (w *topics) open(epoch int64) {
	w.t.Helper()
	sink, err := kafka.New(w.cfg)
	must(w.t, err)
	w.t.Cleanup(func() { _ = sink.Close() })
	w.sink = sink
	opened, err := sink.Open(w.t.Context(), 0, epoch, sinks.Durable{Seq: w.batch, New: w.batch > 0})
	must(w.t, err)
	w.log = opened.Log
}

// write writes random batches about ten objects of two resources.
func (w *topics) write(epoch int64, n int) {
	w.t.Helper()
	for range n {
		w.batch++
		b := &change.Batch{Epoch: epoch, Seq: w.batch}
		now := w.clock().UTC().Truncate(time.Millisecond)
		for range 1 + rand.IntN(3) {
			w.number++
			resource := []string{"pods", "configmaps"}[rand.IntN(2)]
			name := fmt.Sprint("o", rand.IntN(5))
			c := change.Change{Stream: change.ParseStream(change.StreamID(resource)), Op: change.Create, Namespace: "default", Name: name,
				UID: fmt.Sprint("u", w.number), ResourceVersion: change.ResourceVersion(fmt.Sprint(w.number)), Time: now}
			last, lives := w.living[resource+name]
			if lives {
				c.Op, c.UID, c.Before = change.Update, last.UID, last.After
			}
			c.After = fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, c.UID, w.number)
			if w.living[resource+name] = c; lives && rand.IntN(5) == 0 {
				c.Op, c.After = change.Delete, nil
				delete(w.living, resource+name)
			}
			b.Changes = append(b.Changes, c)
			w.history[w.batch] = append(w.history[w.batch], textOf(w.batch, &c))
			b.Positions = append(b.Positions, change.Position{Stream: c.Stream.ID(), ResourceVersion: c.ResourceVersion, Time: c.Time})
		}
		w.upTo[w.batch] = w.number
		_, err := w.log.Write(w.t.Context(), b)
		must(w.t, err)
	}
}

// remove removes the first share of a topic's records.
func (w *topics) remove(topic string, share float64) {
	w.t.Helper()
	topic = w.cfg.TopicPrefix + "." + topic
	ends, err := w.admin.ListEndOffsets(w.t.Context(), topic)
	must(w.t, err)
	offsets := ends.Offsets()
	for _, partitions := range offsets {
		for p, o := range partitions {
			o.At = int64(float64(o.At) * share)
			partitions[p] = o
		}
	}
	_, err = w.admin.DeleteRecords(w.t.Context(), offsets)
	must(w.t, err)
}

// has compares what lives in a mirror with what was written.
func (w *topics) has(r sinks.Reader) {
	w.t.Helper()
	got := map[string]string{}
	must(w.t, r.Changes(w.t.Context(), sinks.Query{Each: sinks.Table}, func(l *sinks.Logged) error {
		got[string(l.Stream.ID())+l.Name] = string(l.After)
		return nil
	}))
	want := map[string]string{}
	for name, c := range w.living {
		want[name] = string(c.After)
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("the mirror has %v, want %v", got, want)
	}
}

// logged lists the changes of a reader that were logged at a time or later, object by object.
func (w *topics) logged(r sinks.Reader, since time.Time) (all []string) {
	w.t.Helper()
	must(w.t, r.Changes(w.t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		if l.Batch > 0 && !l.Logged.Before(since) {
			all = append(all, textOf(l.Batch, &l.Change))
		}
		return nil
	}))
	slices.Sort(all)
	return all
}

func textOf(batch uint64, c *change.Change) string {
	return fmt.Sprint(c.Stream.ID(), " ", c.Name, " ", batch, c.Op, c.ResourceVersion, string(c.Before), string(c.After))
}

// since returns since when a mirror has every change of a resource.
func (w *topics) since(r *mirrored, resource string) time.Time {
	w.t.Helper()
	retained, err := r.Retained(w.t.Context(), nil)
	must(w.t, err)
	return retained[resource].Since
}

// Kafka compacts the data topics before a mirror begins. The mirror has what lives, and all changes of the time that it takes for complete.
func TestAMirrorOfCompactedTopics(t *testing.T) {
	t.Parallel()
	w := newTopicsWith(t, map[string]string{"min.compaction.lag.ms": "0", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0", "segment.ms": "1000"})
	written := time.Now().Add(-10 * time.Hour)
	w.clock = func() time.Time { // each batch begins a segment
		written = written.Add(2 * time.Second)
		return written
	}
	w.write(1, 20)
	count := func() (n int) {
		r, err := kafka.OpenReader(t.Context(), w.cfg)
		must(t, err)
		defer r.Close()
		must(t, r.Changes(t.Context(), sinks.Query{}, func(*sinks.Logged) error {
			n++
			return nil
		}))
		return n
	}
	servers.Await(t, "Kafka to compact the topics", func() (bool, error) {
		w.write(1, 1)
		time.Sleep(200 * time.Millisecond) // so that there are not too many
		return count() < w.number-20, nil
	})
	r := newMirrored(t, w.cfg)
	w.has(r)
	got := map[string]bool{}
	for _, text := range w.logged(r, time.Time{}) {
		got[text] = true
	}
	pods, configs, claimed := w.since(r, "pods"), w.since(r, "configmaps"), 0
	must(t, r.Controls(t.Context(), time.Time{}, nil, func(c *change.Control) error {
		for _, text := range w.history[c.Batch] {
			since := configs
			if strings.HasPrefix(text, "pods ") {
				since = pods
			}
			if c.Type != change.ControlBatch || time.UnixMilli(c.TimeMs).Before(since) {
				continue
			}
			if claimed++; !got[text] {
				t.Errorf("pods are complete since %s, configmaps since %s, and this change of %d is missing: %s", pods, configs, c.TimeMs, text)
			}
		}
		return nil
	}))
	if pods.IsZero() && configs.IsZero() || len(got) >= w.number-20 {
		t.Errorf("it has %d of %d changes, of which %d are of the time since %s or %s", len(got), w.number, claimed, pods, configs)
	}
}

// The control topic, or a data topic, has lost its beginning before a mirror begins: it knows what lived, and since when it is complete.
func TestAMirrorBeginsWhereTheTopicsDo(t *testing.T) {
	for _, lost := range []string{"control", "pods"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			w := newTopics(t)
			w.write(1, 30)
			complete := newMirrored(t, w.cfg)
			w.has(complete)
			if since := w.since(complete, "pods"); !since.IsZero() {
				t.Errorf("all is there, and it is complete since %s", since)
			}
			w.write(1, 30)
			w.has(complete)
			w.remove(lost, 0.5)
			if lost != "control" { // what lives is written again
				clear(w.living)
				w.write(1, 1)
			}
			part := newMirrored(t, w.cfg)
			since := w.since(part, "pods")
			if since.IsZero() {
				t.Fatal("nothing is missing")
			}
			if lost == "control" {
				w.has(part)
				if _, err := part.CutAt(t.Context(), since.Add(-time.Millisecond)); !errors.Is(err, sinks.ErrNotRetained) {
					t.Errorf("the time before the beginning has a cut: %v", err)
				}
			} else if other := w.since(part, "configmaps"); !other.Before(since) {
				t.Errorf("configmaps are complete since %s, as pods are", other)
			}
			since = since.Add(time.Millisecond)
			want, got := w.logged(complete, since), w.logged(part, since)
			if len(want) < 5 || !slices.Equal(want, got) {
				t.Errorf("since %s it has %d changes, want %d", since, len(got), len(want))
			}
		})
	}
}

// stoppedMirror returns topics and a mirror that has all of them, and is stopped.
func stoppedMirror(t *testing.T) (*topics, *mirrored) {
	w := newTopics(t)
	w.write(1, 10)
	r := newMirrored(t, w.cfg)
	w.has(r)
	must(t, r.Close())
	return w, r
}

// While a mirror is stopped, records that it lacks are removed. If they are the control topic's, it begins anew. If they are a data
// topic's, the resource is complete since later. It also begins anew if numbers come again. A control topic that is made again is another
// log.
func TestAMirrorThatFallsBehind(t *testing.T) {
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		w, r := stoppedMirror(t)
		w.write(1, 30)
		w.remove("control", 0.8)
		m, err := openMirror(t.Context(), w.cfg, r.path)
		must(t, err)
		if err := m.Update(t.Context()); !errors.Is(err, mirror.ErrAnew) {
			t.Errorf("it goes on: %v", err)
		}
		m.Close()
		w.has(r)
		w.write(1, 3)
		w.has(r)
	})
	t.Run("data", func(t *testing.T) {
		t.Parallel()
		w, r := stoppedMirror(t)
		w.write(1, 20)
		w.remove("pods", 0.9)
		pods, configs := w.since(r, "pods"), w.since(r, "configmaps")
		if pods.IsZero() || !configs.IsZero() {
			t.Errorf("pods are complete since %s, configmaps since %s", pods, configs)
		}
	})
	t.Run("numbers", func(t *testing.T) { // as after the topics have lost their last batches
		t.Parallel()
		w, r := stoppedMirror(t)
		w.batch = 6
		w.open(2)
		w.write(2, 1)
		m, err := openMirror(t.Context(), w.cfg, r.path)
		must(t, err)
		defer m.Close()
		if err := m.Update(t.Context()); !errors.Is(err, mirror.ErrAnew) || !errors.Is(err, sqlite.ErrNumbersAgain) {
			t.Errorf("it goes on: %v", err)
		}
	})
	t.Run("made again", func(t *testing.T) {
		t.Parallel()
		w, r := stoppedMirror(t)
		for _, topic := range []string{"control", "pods", "configmaps"} {
			_, err := w.admin.DeleteTopic(t.Context(), w.cfg.TopicPrefix+"."+topic)
			must(t, err)
		}
		clear(w.living)
		w.batch = 0
		w.open(2)
		w.write(2, 15)
		w.has(r)
	})
}

// Each group of batches is one transaction with its place. So a mirror that is opened again goes on, whenever it has ended.
func TestAMirrorGoesOn(t *testing.T) {
	t.Parallel()
	w := newTopics(t)
	path := filepath.Join(t.TempDir(), "topics.mirror")
	for range 5 {
		w.write(1, 7)
		m, err := openMirror(t.Context(), w.cfg, path)
		must(t, err)
		must(t, m.Update(t.Context()))
		m.Close()
	}
	r := newMirrored(t, w.cfg)
	r.path = path
	w.has(r)
	if got := w.logged(r, time.Time{}); len(got) != w.number {
		t.Errorf("it has %d changes, want %d", len(got), w.number)
	}
}

// failing is a log that can't be read at first.
type failing struct {
	sinks.Copier
	left atomic.Int32
}

func (f *failing) Copy(ctx context.Context, after sinks.Cut, visit func([]sinks.Copied, sinks.Cut) error) error {
	if f.left.Add(-1) >= 0 {
		return errors.New("no broker can be reached")
	}
	return f.Copier.Copy(ctx, after, visit)
}

// A mirror outlives a broker that is away.
func TestAMirrorTriesAgain(t *testing.T) {
	t.Parallel()
	w := newTopics(t)
	w.write(1, 3)
	from, err := kafka.OpenReader(t.Context(), w.cfg)
	must(t, err)
	log := &failing{Copier: from}
	log.left.Store(2)
	path := filepath.Join(t.TempDir(), "topics.mirror")
	m, err := mirror.Open(t.Context(), log, mirror.Options{Path: path, History: sinks.Forever, Logger: w.cfg.Logger})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	for m.Progress().UpTo.IsZero() {
		select {
		case err := <-ended:
			t.Fatalf("it ends with %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	w.write(1, 3)
	file, err := sqlitefile.Share(t.Context(), path)
	must(t, err)
	r, err := sqlite.NewReader(t.Context(), file, w.cfg.Cluster)
	must(t, err)
	defer r.Close()
	for cut := (sinks.Cut{}); cut.Batches[0] < w.batch; {
		select {
		case err := <-ended:
			t.Fatalf("it ends with %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		cut, err = r.CutAt(t.Context(), time.Time{})
		must(t, err)
	}
	stop()
	<-ended
}

// interrupted is a log of which the second group of batches can't be written at first.
type interrupted struct {
	sinks.Copier
	groups int
}

func (i *interrupted) Copy(ctx context.Context, after sinks.Cut, visit func([]sinks.Copied, sinks.Cut) error) error {
	return i.Copier.Copy(ctx, after, func(batches []sinks.Copied, end sinks.Cut) error {
		if i.groups++; i.groups == 2 {
			return errors.New("the disk is full")
		}
		return visit(batches, end)
	})
}

// A mirror that fails in the middle goes on there: it skips none of the batches that it had read.
func TestAMirrorThatFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newTopics(t)
	for range 5 {
		w.batch++
		b := &change.Batch{Epoch: 1, Seq: w.batch}
		for range 1000 {
			w.number++
			b.Changes = append(b.Changes, change.Change{Stream: change.ParseStream("pods"), Op: change.Create, Namespace: "default", Name: fmt.Sprint("o", w.number),
				UID: fmt.Sprint("u", w.number), ResourceVersion: change.ResourceVersion(fmt.Sprint(w.number)), After: []byte(`{"metadata":{}}`), Time: time.Now()})
		}
		_, err := w.log.Write(t.Context(), b)
		must(t, err)
	}
	from, err := kafka.OpenReader(t.Context(), w.cfg)
	must(t, err)
	log := &interrupted{Copier: from}
	path := filepath.Join(t.TempDir(), "topics.mirror")
	m, err := mirror.Open(t.Context(), log, mirror.Options{Path: path, History: sinks.Forever, Logger: w.cfg.Logger})
	must(t, err)
	if err := m.Update(t.Context()); err == nil || log.groups != 2 {
		t.Errorf("%d groups, and %v", log.groups, err)
	}
	must(t, m.Update(t.Context()))
	m.Close()
	r := newMirrored(t, w.cfg)
	r.path = path
	if got := w.logged(r, time.Time{}); len(got) != w.number {
		t.Errorf("it has %d changes, want %d", len(got), w.number)
	}
}

// measured is a log of yesterday, which measures a file after each group of batches.
type measured struct {
	sinks.Copier
	path    string
	largest int64
}

func (l *measured) Copy(ctx context.Context, after sinks.Cut, visit func([]sinks.Copied, sinks.Cut) error) error {
	return l.Copier.Copy(ctx, after, func(batches []sinks.Copied, end sinks.Cut) error {
		for i := range batches {
			batches[i].Logged = batches[i].Logged.Add(-24 * time.Hour)
		}
		err := visit(batches, end)
		if info, statErr := os.Stat(l.path); statErr == nil {
			l.largest = max(l.largest, info.Size())
		}
		return err
	})
}

// Old changes are removed while a mirror fills. So it never takes much more than its limit, however much the topics have.
func TestAMirrorRemainsSmallWhileItFills(t *testing.T) {
	t.Parallel()
	w := newTopics(t)
	const limit, times = 16 << 20, 25
	for i := range times {
		w.batch++
		b := &change.Batch{Epoch: 1, Seq: w.batch}
		for n := range 1000 {
			w.number++
			c := change.Change{Stream: change.ParseStream("pods"), Op: change.Update, Namespace: "default", Name: fmt.Sprint("o", n),
				UID: fmt.Sprint("u", n), ResourceVersion: change.ResourceVersion(fmt.Sprint(w.number)), Time: time.Now()}
			data := make([]byte, 1000)
			_, _ = random.Read(data)
			if c.After = fmt.Appendf(nil, `{"metadata":{},"data":"%x"}`, data); i == 0 {
				c.Op = change.Create
			}
			b.Changes = append(b.Changes, c)
		}
		_, err := w.log.Write(t.Context(), b)
		must(t, err)
	}
	from, err := kafka.OpenReader(t.Context(), w.cfg)
	must(t, err)
	log := &measured{Copier: from, path: filepath.Join(t.TempDir(), "topics.mirror")}
	m, err := mirror.Open(t.Context(), log, mirror.Options{Path: log.path, History: sinks.Forever, MaxBytes: limit, Logger: w.cfg.Logger})
	must(t, err)
	defer m.Close()
	must(t, m.Update(t.Context()))
	if log.largest < limit/2 || log.largest > limit*5/4 {
		t.Errorf("with a limit of %d bytes the file had %d", limit, log.largest)
	}
	t.Logf("at most %d bytes", log.largest)
}
