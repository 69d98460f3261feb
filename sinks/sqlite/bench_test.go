package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sinktest"
	"kubecdc/sinks/sqlite"
)

// podOf renders a Pod of about 4 KB: half of it is text of its own, and an update changes the version, the times and a count.
func podOf(name int, version int64) []byte {
	own := rand.New(rand.NewPCG(uint64(name), 7))
	at := time.UnixMilli(1700000000000 + version*100).UTC().Format(time.RFC3339)
	b := fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"default","uid":"0b1f4a52-6f0e-4dd8-9f0b-%012d",`+
		`"resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"app","image":"registry.example.com/app:%x",`+
		`"env":[`, name, name, version, own.Uint64())
	for i := range 40 {
		b = fmt.Appendf(b, `{"name":"SETTING_%d","value":"%016x%016x"},`, i, own.Uint64(), own.Uint64())
	}
	return fmt.Appendf(b, `{"name":"LAST","value":""}],"terminationMessagePath":"/dev/termination-log"}]},"status":{"phase":"Running","conditions":[`+
		`{"type":"Ready","status":"True","lastProbeTime":%[1]q,"lastTransitionTime":%[1]q},{"type":"ContainersReady","status":"True","lastProbeTime":`+
		`%[1]q,"lastTransitionTime":"2026-01-01T00:00:00Z"}],"restartCount":%[2]d}}`, at, version%7)
}

// BenchmarkHistory writes updates of 10,000 Pods of 4 KB (BenchmarkHistory -benchtime=10000000x for ten million), and reads them back:
// all changes of one object, and the state of all at a moment in the middle.
func BenchmarkHistory(b *testing.B) {
	const objects, batch = 10_000, 500
	path := filepath.Join(b.TempDir(), "log")
	log, file := benchLog(b, path)
	next := &change.Batch{Epoch: 1}
	version := int64(objects)
	flush := func() {
		next.Seq++
		if _, err := log.Write(b.Context(), next); err != nil {
			b.Fatal(err)
		}
		next.Changes = next.Changes[:0]
	}
	add := func(name int, op change.Op, before []byte) {
		version++
		next.Changes = append(next.Changes, change.Change{Stream: pods, Op: op, Namespace: "default", Name: fmt.Sprint("web-", name),
			UID: fmt.Sprintf("0b1f4a52-6f0e-4dd8-9f0b-%012d", name), ResourceVersion: change.VersionOf(uint64(version)), Time: time.Now(),
			Before: before, After: podOf(name, version)})
		if len(next.Changes) == batch {
			flush()
		}
	}
	last := make([]int64, objects)
	for name := range objects {
		add(name, change.Create, nil)
		last[name] = version
	}
	flush()
	first := size(b, path)
	var middle time.Time
	b.ResetTimer()
	for i := range b.N {
		if i == b.N/2 {
			middle = time.Now()
		}
		name := rand.N(objects)
		add(name, change.Update, podOf(name, last[name]))
		last[name] = version
	}
	flush()
	b.StopTimer()
	b.ReportMetric(float64(size(b, path)-first)/float64(b.N), "bytes/change")
	r, err := sqlite.NewReader(b.Context(), file, sinktest.Name)
	if err != nil {
		b.Fatal(err)
	}
	took := func(what string, read func(func(*sinks.Logged) error) error) {
		began := time.Now()
		if err := read(func(*sinks.Logged) error { return nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), what)
	}
	took("history-ms", func(visit func(*sinks.Logged) error) error {
		return r.Changes(b.Context(), sinks.Query{Resources: []string{"pods"}, Namespace: "default", Name: "web-77"}, visit)
	})
	took("state-ms", func(visit func(*sinks.Logged) error) error {
		cut, err := r.At(b.Context(), middle)
		if err != nil {
			return err
		}
		return r.States(b.Context(), sinks.Query{To: &cut}, visit)
	})
}

func benchLog(b *testing.B, path string) (sinks.Log, *sqlitefile.File) {
	file := own(b, path)
	sink, err := sqlite.New(b.Context(), file, sqlite.Config{Cluster: sinktest.Name, ClusterUID: sinktest.UID})
	if err != nil {
		b.Fatal(err)
	}
	opened, err := sink.Open(b.Context(), 0, 1, sinks.Durable{New: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { opened.Log.Close() })
	return opened.Log, file
}

// size is that of the file, with the log beside it.
func size(b *testing.B, path string) (n int64) {
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			b.Fatal(err)
		}
		n += info.Size()
	}
	return n
}
