package sqlite_test

import (
	"bytes"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/require"
	"kubecdc/test/sinktest"
)

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

// history writes random changes of a few objects, and remembers them.
type history struct {
	*rand.Rand
	t       *testing.T
	log     sinks.Log
	version int
	noise   int // how many random characters, which can't be compressed, each body has in addition
	live    map[string]change.Change
	written [][]change.Change // the changes of each batch
	states  []map[string]change.Change
}

// body returns a body of any size for an object. Its version and a few other members differ from the previous one.
func (h *history) body(name, uid string) []byte {
	text := strings.Repeat(fmt.Sprintf("%x ", h.IntN(40)), []int{1, 10, 400, 5000}[h.IntN(4)])
	if noise := make([]byte, max(0, h.noise-len(text))/2); len(noise) > 0 {
		for i := range noise {
			noise[i] = byte(h.Uint32())
		}
		text += hex.EncodeToString(noise)
	}
	return fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d"},"note":%q}`,
		name, uid, h.version, text)
}

// next returns a change of a random object. Its state before may differ from the log's, or be missing. It may be a repeated read,
// or create an object again with the same uid, as after a repair.
func (h *history) next() change.Change {
	h.version++
	name := fmt.Sprint("web-", h.IntN(8))
	was, lives := h.live[name]
	c := change.Change{Stream: pods, Op: change.Create, Namespace: "default", Name: name, UID: fmt.Sprint("u", h.version),
		ResourceVersion: change.VersionOf(uint64(h.version)), Time: time.Now().Truncate(time.Millisecond)}
	if lives {
		c.UID = was.UID
	}
	c.After = h.body(name, c.UID)
	switch {
	case lives && h.IntN(6) == 0:
		c.Op, c.Before, c.After = change.Delete, was.After, nil
	case lives && h.IntN(8) == 0:
		c.Op = change.Read
	case lives:
		c.Op, c.Before = change.Update, was.After
	case h.IntN(3) == 0:
		c.UID = "u-" + name
	}
	if h.IntN(12) == 0 && c.Before != nil {
		c.Before = []byte(`{"redacted":true}`)
	} else if h.IntN(12) == 0 && c.Op == change.Update {
		c.Before = nil
	}
	delete(h.live, name)
	if c.After != nil {
		h.live[name] = c
	}
	return c
}

func (h *history) write(batches int) {
	for range batches {
		b := &change.Batch{Epoch: 1, Seq: uint64(len(h.written) + 1)}
		for range h.IntN(6) {
			b.Changes = append(b.Changes, h.next())
		}
		if _, err := h.log.Write(h.t.Context(), b); err != nil {
			h.t.Fatal(err)
		}
		h.written, h.states = append(h.written, b.Changes), append(h.states, maps.Clone(h.live))
	}
}

func wantSame(t *testing.T, what string, got, want change.Change) {
	t.Helper()
	if got.Op != want.Op || got.UID != want.UID || got.ResourceVersion != want.ResourceVersion || !bytes.Equal(got.After, want.After) ||
		!bytes.Equal(got.Before, want.Before) || (got.Before == nil) != (want.Before == nil) {
		t.Fatalf("%s: %s %s at %s: %.80s → %.80s, want %s %s at %s: %.80s → %.80s", what, got.Op, got.Key(), got.ResourceVersion, got.Before, got.After,
			want.Op, want.Key(), want.ResourceVersion, want.Before, want.After)
	}
}

// check reads the log: the state where its history begins, then every change, byte for byte.
func (h *history) check(r *sqlite.Reader) {
	h.t.Helper()
	from, next := 0, 0
	base := map[string]change.Change{}
	var flat []change.Change
	err := r.Changes(h.t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		if l.Batch == 0 {
			base[l.Name] = l.Change
			return nil
		}
		if flat == nil {
			for from = int(l.Batch) - 1; from > 0 && len(h.written[from-1]) == 0; from-- {
			}
			for _, changes := range h.written[from:] {
				flat = append(flat, changes...)
			}
		}
		wantSame(h.t, "a change", l.Change, flat[next])
		next++
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	want := h.live
	if flat == nil {
		from = len(h.written) - 1
	} else {
		want = map[string]change.Change{}
		if from > 0 {
			want = h.states[from-1]
		}
	}
	if next != len(flat) || len(base) != len(want) {
		h.t.Fatalf("%d of %d changes were read, after %d of %d objects", next, len(flat), len(base), len(want))
	}
	for name, c := range want {
		c.Op, c.Before = change.Read, nil
		wantSame(h.t, "what was there", base[name], c)
	}
	h.checkObjects(r)
	h.checkStates(r, from)
	if flat != nil {
		h.checkRest(r, from)
	}
}

// checkStates verifies the state at each batch that the history has.
func (h *history) checkStates(r *sqlite.Reader, from int) {
	h.t.Helper()
	for i := from; i < len(h.written); i += 1 + h.IntN(60) {
		was := map[string]change.Change{}
		err := r.Changes(h.t.Context(), sinks.Query{Each: sinks.Last, To: &sinks.Cut{Batches: map[int]uint64{0: uint64(i + 1)}}}, func(l *sinks.Logged) error {
			was[l.Name] = l.Change
			return nil
		})
		if err != nil || len(was) != len(h.states[i]) {
			h.t.Fatalf("batch %d left %d objects, want %d: %v", i+1, len(was), len(h.states[i]), err)
		}
		for name, c := range h.states[i] {
			if was[name].ResourceVersion != c.ResourceVersion || !bytes.Equal(was[name].After, c.After) {
				h.t.Fatalf("after batch %d %s is %.80s, want %.80s", i+1, name, was[name].After, c.After)
			}
		}
	}
}

func (h *history) checkObjects(r *sqlite.Reader) {
	h.t.Helper()
	live := map[string]change.Change{}
	err := r.Changes(h.t.Context(), sinks.Query{Each: sinks.Table, Resources: []string{"pods"}}, func(l *sinks.Logged) error {
		live[l.Name] = l.Change
		return nil
	})
	if err != nil || len(live) != len(h.live) {
		h.t.Fatalf("%d objects, want %d: %v", len(live), len(h.live), err)
	}
	for name, c := range h.live {
		if !bytes.Equal(live[name].After, c.After) {
			h.t.Fatalf("%s is %.80s, want %.80s", name, live[name].After, c.After)
		}
	}
}

func newHistory(t *testing.T, path string, seed uint64, c sqlite.Config) (*history, *sqlite.Sink, *sqlite.Reader) {
	return historyIn(t, own(t, path), path, seed, c)
}

func historyIn(t *testing.T, file *sqlitefile.File, path string, seed uint64, c sqlite.Config) (*history, *sqlite.Sink, *sqlite.Reader) {
	c.Cluster, c.ClusterUID = sinktest.Name, sinktest.UID
	sink := newSink(t, file, c)
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	must(t, err)
	t.Cleanup(func() { opened.Log.Close() })
	r, err := sqlite.NewReader(t.Context(), share(t, path), sinktest.Name)
	must(t, err)
	return &history{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, log: opened.Log, live: map[string]change.Change{}}, sink, r
}

// TestWhatAHistoryLosesIsItsOldestPart removes the start of random histories. What remains is complete, with the state that was
// there before it.
func TestWhatAHistoryLosesIsItsOldestPart(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h, sink, r := newHistory(t, filepath.Join(t.TempDir(), "log"), seed, sqlite.Config{History: time.Millisecond})
			h.write(60)
			h.check(r)
			began := time.Now()
			for range 4 {
				h.write(60)
				h.check(r)
				// The history is cut ten minutes before now, which is somewhere in what was written.
				cut := began.Add(time.Duration(h.Float64() * float64(time.Since(began))))
				must(t, sink.Prune(t.Context(), cut.Add(10*time.Minute)))
				h.check(r)
				if retained, err := r.Retained(t.Context(), nil); err != nil || retained["pods"].Since.IsZero() {
					t.Fatalf("retained: %v, %v", retained, err)
				}
			}
			must(t, sink.Prune(t.Context(), time.Now().Add(time.Hour)))
			h.check(r)
			batches := 0
			err := r.Controls(t.Context(), time.Time{}, nil, func(*change.Control) error { batches++; return nil })
			if err != nil || batches != 1 {
				t.Fatalf("%d batches are left, want the last one: %v", batches, err)
			}
			h.write(10)
			h.check(r)
		})
	}
}

func afterBatch(n int) sinks.Query {
	return sinks.Query{After: &sinks.Cut{Batches: map[int]uint64{0: uint64(n)}}}
}

// readings are the kinds of reading, after a batch or up to it.
var readings = map[string]func(h *history, r *sqlite.Reader, batch int, visit func(*sinks.Logged) error) error{
	"all": func(h *history, r *sqlite.Reader, _ int, visit func(*sinks.Logged) error) error {
		return r.Changes(h.t.Context(), sinks.Query{}, visit)
	},
	"after a batch": func(h *history, r *sqlite.Reader, batch int, visit func(*sinks.Logged) error) error {
		return r.Changes(h.t.Context(), afterBatch(batch), visit)
	},
	"of an object": func(h *history, r *sqlite.Reader, batch int, visit func(*sinks.Logged) error) error {
		q := afterBatch(batch)
		q.Name = "web-1"
		return r.Changes(h.t.Context(), q, visit)
	},
	"by names": func(h *history, r *sqlite.Reader, batch int, visit func(*sinks.Logged) error) error {
		q := afterBatch(batch)
		q.Each = sinks.Rest
		return r.Changes(h.t.Context(), q, visit)
	},
	"states": func(h *history, r *sqlite.Reader, batch int, visit func(*sinks.Logged) error) error {
		return r.Changes(h.t.Context(), sinks.Query{Each: sinks.Last, To: afterBatch(batch).After}, visit)
	},
}

// While each kind of reading is in progress, some of the history is removed: before, at, or after what was read. The reader gets
// the rest completely, or an error that says that it can't.
func TestHistoryGoesWhileItIsRead(t *testing.T) {
	complete, refused := map[string]int{}, map[string]int{}
	for seed := range uint64(6) {
		h, sink, r := newHistory(t, filepath.Join(t.TempDir(), "log"), seed, sqlite.Config{History: time.Millisecond})
		h.noise = 60_000 // a page has 70 of the changes
		var written []time.Time
		for range 200 {
			h.write(1)
			written = append(written, time.Now())
		}
		gone := 0
		names := slices.Sorted(maps.Keys(readings))
		h.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			batch := gone + 1 + h.IntN(10)
			gone += h.IntN(40)
			var want, got []string
			all := func(l *sinks.Logged) error {
				got = append(got, fmt.Sprintf("%s %s %s %x", l.Name, l.Op, l.ResourceVersion, l.After))
				return nil
			}
			must(t, readings[name](h, r, batch, all))
			want, got = got, nil
			place := h.IntN(min(len(want), 60) + 1) // or not during the reading
			err := readings[name](h, r, batch, func(l *sinks.Logged) error {
				if len(got) == place {
					if err := sink.Prune(t.Context(), written[gone].Add(10*time.Minute)); err != nil {
						return err
					}
				}
				return all(l)
			})
			switch {
			case errors.Is(err, sinks.ErrNotRetained):
				refused[name]++
			case err != nil || !slices.Equal(got, want):
				t.Errorf("seed %d, %s: %d records were read after batch %d, and %d when some were removed at the %d: %v", seed, name, len(want), batch, len(got), place, err)
			default:
				complete[name]++
			}
		}
	}
	t.Log("complete:", complete, "refused:", refused)
	for name := range readings { // a state, and objects of one name, are read by so many queries that any removal is noticed
		if refused[name] == 0 || complete[name] == 0 && name != "states" && name != "of an object" {
			t.Errorf("%s: %d readings were complete, and %d were refused", name, complete[name], refused[name])
		}
	}
}

// A reader asks for the changes after each batch once the history is cut. It gets all of them, or an error that says that some
// are gone.
func TestChangesAfterABatchThatIsGone(t *testing.T) {
	h, sink, r := newHistory(t, filepath.Join(t.TempDir(), "log"), 1, sqlite.Config{History: time.Millisecond})
	began := time.Now()
	h.write(200)
	must(t, sink.Prune(t.Context(), began.Add(10*time.Minute+time.Since(began)/2)))
	refused := 0
	for batch := range len(h.written) {
		want, got := 0, 0
		for _, changes := range h.written[batch:] {
			want += len(changes)
		}
		err := r.Changes(t.Context(), afterBatch(batch), func(*sinks.Logged) error {
			got++
			return nil
		})
		if errors.Is(err, sinks.ErrNotRetained) {
			if refused++; refused != batch+1 {
				t.Errorf("the changes after batch %d are gone, but the changes of an earlier one are not", batch)
			}
		} else if err != nil || got != want {
			t.Errorf("after batch %d there are %d changes, want %d: %v", batch, got, want, err)
		}
	}
	if refused == 0 || refused == len(h.written) {
		t.Errorf("after %d of %d batches changes are gone", refused, len(h.written))
	}
}

// TestAClockThatGoesBack writes after the clock was set back by an hour. The log's times never go back, so a moment is one place
// in the log.
func TestAClockThatGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	h, _, r := newHistory(t, path, 1, sqlite.Config{})
	h.write(20)
	if _, err := share(t, path).DB().Exec(`update log_batches set written = written + 3600000 where seq > 10`); err != nil {
		t.Fatal(err)
	}
	h.write(20)
	var last time.Time
	err := r.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		if l.Logged.Before(last) {
			t.Errorf("batch %d was logged %s, after one of %s", l.Batch, l.Logged, last)
		}
		last = l.Logged
		return nil
	})
	must(t, err)
	for moment, want := range map[time.Time]uint64{time.Now(): 10, last: 40, time.Now().Add(-time.Hour): 0} {
		if cut, err := r.CutAt(t.Context(), moment); err != nil || cut.Batches[0] != want {
			t.Errorf("at %s the log was at batch %d, want %d: %v", moment, cut.Batches[0], want, err)
		}
	}
	h.check(r)
}

// TestTheFileKeepsToItsSize: above the limit the oldest history is removed, what remains is complete, and the space is given back
// to the disk. A file that SQLite can't shrink, because of how it was created, retains the space to be used again.
func TestTheFileKeepsToItsSize(t *testing.T) {
	const limit = 1 << 20
	for name, mode := range map[string]string{"given back": "incremental", "kept": "none"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			file := own(t, path)
			if _, err := file.DB().Exec(`pragma auto_vacuum = ` + mode + `; vacuum`); err != nil { // takes effect with the vacuum
				t.Fatal(err)
			}
			h, sink, r := historyIn(t, file, path, 1, sqlite.Config{MaxSize: limit})
			for h.noise = 30_000; fileSize(t, file) < 8*limit; {
				h.write(20)
			}
			if _, err := file.DB().Exec(`update log_batches set written = written - 3600000`); err != nil { // otherwise it is too new to be removed
				t.Fatal(err)
			}
			must(t, sink.Prune(t.Context(), time.Now()))
			h.check(r)
			if retained, err := r.Retained(t.Context(), nil); err != nil || retained["pods"].Since.IsZero() {
				t.Errorf("retained: %v, %v", retained, err)
			}
			if size := fileSize(t, file); (size < 2*limit) != (mode == "incremental") {
				t.Errorf("the file has %d bytes", size)
			}
		})
	}
}

// A field that was logged in full before it was redacted must leave the file. It is gone once the history is over and the object
// has changed.
func TestWhatHasGoneIsNotInTheFile(t *testing.T) {
	file := own(t, filepath.Join(t.TempDir(), "log"))
	s := newSink(t, file, sqlite.Config{Cluster: sinktest.Name, ClusterUID: sinktest.UID, History: time.Millisecond})
	opened, err := s.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	must(t, err)
	defer opened.Log.Close()
	secret := cryptorand.Text()
	body := func(password string, digits int) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":"a"},"password":%q,"note":"%0*d"}`, password, digits, 0)
	}
	for seq, c := range []change.Change{
		{Op: change.Create, After: body(secret, 3000)},
		{Op: change.Update, Before: body(secret, 3000), After: body(secret+"2", 9000)}, // larger than one page
		{Op: change.Update, Before: body("hash", 9000), After: body("hash", 10)},
		{Op: change.Update, Before: body("hash", 10), After: body("hash", 11)},
	} {
		c.Stream, c.Name, c.UID, c.ResourceVersion = pods, "a", "u", change.VersionOf(uint64(seq+1))
		b := &change.Batch{Epoch: 1, Seq: uint64(seq + 1), Changes: []change.Change{c},
			Malformed: []change.Malformed{{Stream: pods.ID(), Bytes: []byte(secret), Reason: "broken"}}}
		if _, err := opened.Log.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	times := func() int {
		fileSize(t, file)
		all, err := os.ReadFile(file.Path())
		must(t, err)
		return bytes.Count(all, []byte(secret))
	}
	if n := times(); n < 6 {
		t.Errorf("the file had it %d times, before anything went", n)
	}
	must(t, s.Prune(t.Context(), time.Now().Add(time.Hour)))
	if n := times(); n != 0 {
		t.Errorf("the file has it %d times", n)
	}
}

// fileSize returns the size of the file, after SQLite's own log was moved into it.
func fileSize(t *testing.T, file *sqlitefile.File) int64 {
	t.Helper()
	if _, err := file.DB().Exec(`pragma wal_checkpoint(truncate)`); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file.Path())
	must(t, err)
	return info.Size()
}

// Audit records are removed with the history, and so are their requesters, and schemas that were replaced before.
func TestAuditRecordsAndSchemasArePruned(t *testing.T) {
	file := own(t, filepath.Join(t.TempDir(), "log"))
	s := newSink(t, file, sqlite.Config{Cluster: sinktest.Name, History: time.Hour})
	opened, err := s.Open(t.Context(), 0, 1, sinks.Durable{})
	must(t, err)
	defer opened.Log.Close()
	now := time.Now()
	for seq := range 2 {
		if _, err := opened.Log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: uint64(seq + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	var all []audit.Record
	for i := range 5000 {
		all = append(all, audit.Record{ID: fmt.Sprintf("%032x", i), Resource: "pods", User: fmt.Sprint("user ", i/2500),
			Received: now.Add(time.Duration(i/2500) * 2 * time.Hour)})
	}
	must(t, s.WriteAudit(t.Context(), all))
	for i, hash := range []string{"a", "b", "c"} {
		schema := sinks.Schema{Path: "api/v1", Hash: hash, Since: now.Add(time.Duration(i*2-3) * time.Hour)}
		if schema.Document = []byte(hash); s.WriteSchema(t.Context(), &schema) != nil {
			t.Fatal("a schema is not written")
		}
	}
	must(t, s.Prune(t.Context(), now.Add(2*time.Hour)))
	var schemas string
	if err := file.DB().QueryRowContext(t.Context(), `select group_concat(hash) from log_schemas`).Scan(&schemas); err != nil || schemas != "b,c" {
		t.Errorf("the schemas %s are retained, want b,c: %v", schemas, err)
	}
	var records, requesters, since int64
	const query = `select (select count(*) from log_audit), (select count(*) from log_requesters), (select since from log_kept)`
	must(t, file.DB().QueryRowContext(t.Context(), query).Scan(&records, &requesters, &since))
	if records != 2500 || requesters != 1 {
		t.Errorf("%d records of %d requesters are retained since %d, want the last 2500 of one", records, requesters, since)
	}
}

// BenchmarkWriteAudit writes records in batches of the size that the API server's webhook sends.
func BenchmarkWriteAudit(b *testing.B) {
	file := own(b, filepath.Join(b.TempDir(), "log"))
	s, err := sqlite.New(b.Context(), file, sqlite.Config{Cluster: sinktest.Name})
	must(b, err)
	n := 0
	for b.Loop() {
		var all []audit.Record
		for range 400 {
			n++
			all = append(all, audit.Record{ID: fmt.Sprintf("%016x%016x", rand.Uint64(), n), Resource: "pods", User: fmt.Sprint("user ", n%50),
				Namespace: "shop", Name: fmt.Sprint("pod-", n%3000), UID: "00000000-0000-4000-8000-000000000000", VersionBefore: "123456"})
		}
		must(b, s.WriteAudit(b.Context(), all))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/record")
}

var must = require.NoError
