package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
)

// podOf renders a Pod of about 4 KB. Half of it is text that only this Pod has. An update changes the version, the times and a
// counter.
func podOf(name int, version int64) []byte {
	own, known := ownText.Load(name)
	if !known {
		own, _ = ownText.LoadOrStore(name, ownTextOf(name))
	}
	moment := time.UnixMilli(1700000000000 + version*100).UTC().Format(time.RFC3339)
	b := fmt.Appendf(make([]byte, 0, 4500), `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"default","uid":`+
		`"0b1f4a52-6f0e-4dd8-9f0b-%012d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"app",`,
		name, name, version)
	b = append(b, own.(string)...)
	return fmt.Appendf(b, `{"name":"LAST","value":""}],"terminationMessagePath":"/dev/termination-log"}]},"status":{"phase":"Running","conditions":[`+
		`{"type":"Ready","status":"True","lastProbeTime":%[1]q,"lastTransitionTime":%[1]q},{"type":"ContainersReady","status":"True","lastProbeTime":`+
		`%[1]q,"lastTransitionTime":"2026-01-01T00:00:00Z"}],"restartCount":%[2]d}}`, moment, version%7)
}

var ownText sync.Map // by name

func ownTextOf(name int) string {
	own := rand.New(rand.NewPCG(uint64(name), 7))
	b := fmt.Appendf(nil, `"image":"registry.example.com/app:%x","env":[`, own.Uint64())
	for i := range 40 {
		b = fmt.Appendf(b, `{"name":"SETTING_%d","value":"%016x%016x"},`, i, own.Uint64(), own.Uint64())
	}
	return string(b)
}

// BenchmarkHistory writes updates of 10,000 Pods of 4 KB, ten a second by their times (-benchtime=10000000x for ten million
// updates). Then it reads all changes of one object, and the state of all objects in the middle of the history. That state is
// asked for by a batch, a resourceVersion and a time. Times are CPU times.
func BenchmarkHistory(b *testing.B) {
	const objects = 10_000
	path := filepath.Join(b.TempDir(), "log")
	w := &benchWriter{b: b, version: objects, last: make([][]byte, objects), next: change.Batch{Epoch: 1}}
	var file *sqlitefile.File
	w.log, file = benchLog(b, path)
	for name := range objects {
		w.add(name, change.Create)
	}
	w.flush()
	first := size(b, path)
	var middle time.Time
	b.ResetTimer()
	began := processor(b)
	for i := range b.N {
		if i == b.N/2 {
			middle = time.Now()
		}
		w.add(rand.N(objects), change.Update)
	}
	w.flush()
	b.StopTimer()
	b.ReportMetric(float64((processor(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/change")
	b.ReportMetric(float64(size(b, path)-first)/float64(b.N), "bytes/change")
	r, err := sqlite.NewReader(b.Context(), file, sinktest.Name)
	must(b, err)
	took := func(what string, read func(func(*sinks.Logged) error) error) {
		began := processor(b)
		must(b, read(func(*sinks.Logged) error { return nil }))
		b.ReportMetric(float64((processor(b) - began).Milliseconds()), what)
	}
	took("history-ms", func(visit func(*sinks.Logged) error) error {
		return r.Changes(b.Context(), sinks.Query{Resources: []string{"pods"}, Namespace: "default", Name: "web-77"}, visit)
	})
	version := int64(objects + b.N/2)
	for what, moment := range map[string]timeline.Target{"logged-ms": {Logged: middle}, "version-ms": {Version: change.VersionOf(uint64(version))},
		"happened-ms": {Happened: happened(version)}} {
		took(what, func(func(*sinks.Logged) error) error {
			_, err := query.ReadStates(b.Context(), r, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, moment)
			return err
		})
	}
}

// BenchmarkLives writes b.N Pods of which a thousand live at a time (-benchtime=1000000x). It reads the first 500 at the end and in
// the middle, among all deleted ones.
func BenchmarkLives(b *testing.B) {
	const living = 1000
	path := filepath.Join(b.TempDir(), "log")
	w := &benchWriter{b: b, last: make([][]byte, b.N), next: change.Batch{Epoch: 1}}
	var file *sqlitefile.File
	w.log, file = benchLog(b, path)
	began := processor(b)
	for i := range b.N {
		w.add((i*7919)%b.N, change.Create) // b.N is no multiple of that
		if i >= living {
			w.add(((i-living)*7919)%b.N, change.Delete)
		}
	}
	w.flush()
	b.ReportMetric(float64((processor(b)-began).Nanoseconds())/float64(2*b.N), "cpu-ns/change")
	b.ReportMetric(float64(size(b, path))/float64(2*b.N), "bytes/change")
	r, err := sqlite.NewReader(b.Context(), file, sinktest.Name)
	must(b, err)
	for what, seq := range map[string]uint64{"end-ms": w.next.Seq, "middle-ms": w.next.Seq / 2} {
		q := sinks.Query{Resources: []string{"pods"}, Each: sinks.Last, Keys: &sinks.Keys{}, To: &sinks.Cut{Batches: map[int]uint64{0: seq}}}
		n, began := 0, processor(b)
		err := r.Changes(b.Context(), q, func(*sinks.Logged) error {
			if n++; n == 500 {
				return sinks.ErrEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, sinks.ErrEnough) {
			b.Fatal(err)
		}
		b.ReportMetric(float64((processor(b) - began).Milliseconds()), what)
	}
}

// BenchmarkCompleteness asks up to when the history of an object is complete, with the log as it is written and without its
// spans. The log has b.N batches (-benchtime=10000000x) of one change each, ten a second, of 60 streams in turn.
func BenchmarkCompleteness(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	log, file := benchLog(b, path)
	first := change.Batch{Epoch: 1, Seq: 1}
	for i := range 60 {
		id := change.NewStream(change.Resource{Version: "v1", Plural: fmt.Sprint("r", i)}, "", "", "").ID()
		first.Positions = append(first.Positions, change.Position{Stream: id, ResourceVersion: "1", Time: time.UnixMilli(0)})
		first.Controls = append(first.Controls, change.SnapshotBeginControl(id, ""))
	}
	if _, err := log.Write(b.Context(), &first); err != nil {
		b.Fatal(err)
	}
	const numbers = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ?) insert into `
	exec := func(statement string, n int) {
		if _, err := file.DB().Exec(statement, n); err != nil {
			b.Fatal(err)
		}
	}
	exec(numbers+`log_batches select 2 * i, 1, 1, 1 + i, (select written from log_batches where id = 1) + 100 * i, 1, 
		'[[' || (1 + i % 60) || ',' || i || ',5]]' from n`, b.N)
	r, err := sqlite.NewReader(b.Context(), file, sinktest.Name)
	must(b, err)
	took := func(what string, r sinks.Reader) {
		began := processor(b)
		if _, missing, err := timeline.Covered(b.Context(), r, &sinks.Objects{Resources: []string{"r7"}}, time.Time{}); err != nil || missing != nil {
			b.Fatal(missing, err)
		}
		b.ReportMetric(float64((processor(b) - began).Milliseconds()), what)
	}
	took("batches-ms", inFull{r})
	exec(numbers+`log_spans select 600 * i - 598, 600 * i, 1, 300, 0, (select json_group_array(json_array(value, i * 300, 5)) from
		(with recursive s (value) as (select 1 union all select value + 1 from s where value < 60) select value from s)) from n`, max(1, b.N/300))
	took("spans-ms", r)
}

// happened returns the time of the change with a version.
func happened(version int64) time.Time {
	return time.UnixMilli(1700000000000 + 100*version)
}

// benchWriter writes changes in batches of 500.
type benchWriter struct {
	b       *testing.B
	log     sinks.Log
	next    change.Batch
	version int64
	last    [][]byte // the body of each object
}

func (w *benchWriter) add(name int, op change.Op) {
	w.version++
	before := w.last[name]
	if w.last[name] = podOf(name, w.version); op == change.Delete {
		w.last[name] = nil
	}
	w.next.Changes = append(w.next.Changes, change.Change{Stream: pods, Op: op, Namespace: "default", Name: fmt.Sprint("web-", name), Before: before,
		UID: fmt.Sprintf("0b1f4a52-6f0e-4dd8-9f0b-%012d", name), ResourceVersion: change.VersionOf(uint64(w.version)), Time: happened(w.version), After: w.last[name]})
	if len(w.next.Changes) == 500 {
		w.flush()
	}
}

func (w *benchWriter) flush() {
	w.next.Seq++
	w.next.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(w.version)), Time: happened(w.version)}}
	if _, err := w.log.Write(w.b.Context(), &w.next); err != nil {
		w.b.Fatal(err)
	}
	w.next.Changes = w.next.Changes[:0]
}

// processor returns the CPU time that this process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchLog(b *testing.B, path string) (sinks.Log, *sqlitefile.File) {
	file := own(b, path)
	sink, err := sqlite.New(b.Context(), file, sqlite.Config{Cluster: sinktest.Name, ClusterUID: sinktest.UID, BodyCacheBytes: 64 << 20})
	must(b, err)
	opened, err := sink.Open(b.Context(), 0, 1, sinks.Durable{New: true})
	must(b, err)
	b.Cleanup(func() { opened.Log.Close() })
	return opened.Log, file
}

// size returns the size of the file together with SQLite's own log.
func size(b *testing.B, path string) (n int64) {
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		must(b, err)
		n += info.Size()
	}
	return n
}
