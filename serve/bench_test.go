package serve

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/servers"
)

// BenchmarkServe asks a server of a log of b.N updates (-benchtime=1000000x) of 10,000 Pods. It gets one Pod, all Pods, and the first
// page of 500, at the end and in the middle of the log. Each view is read anew, but the server has followed the log, except for the first
// question. Then it watches the last 10,000 changes, and 5,000 new ones of 5 seconds.
func BenchmarkServe(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { benchmarkServe(b, now(sqliteLog)) })
	b.Run("Postgres", func(b *testing.B) { benchmarkServe(b, now(postgresLog)) })
	b.Run("Mirror", func(b *testing.B) { benchmarkServe(b, mirrorLog) })
}

// now is a log whose reader needs nothing first.
func now(open func(testing.TB) (sinks.Log, sinks.Reader)) func(*testing.B) (sinks.Log, func(func(int) int) sinks.Reader) {
	return func(b *testing.B) (sinks.Log, func(func(int) int) sinks.Reader) {
		log, reader := open(b)
		return log, func(func(int) int) sinks.Reader { return reader }
	}
}

func benchmarkServe(b *testing.B, open func(*testing.B) (log sinks.Log, read func(more func(int) int) sinks.Reader)) {
	const objects = 10_000
	log, read := open(b)
	p := &past{}
	more := fill(b, log, objects, b.N)
	reader := read(more)
	p.server = New(reader, nil, slog.New(slog.DiscardHandler))
	took := func(what, path string) {
		runtime.GC()
		began := time.Now()
		a := p.ours(path, asObjects)
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, what+"-ms")
		if a.code != http.StatusOK || len(a.warnings) > 0 {
			b.Fatalf("%s: %d %v %.200s", path, a.code, a.warnings, a.body)
		}
	}
	middle := fmt.Sprintf("/at/%d", objects+b.N/2)
	forget := p.server.views.recent.Purge
	took("first-get", "/api/v1/namespaces/default/pods/web-77")
	for where, moment := range map[string]string{"end": "", "middle": middle} {
		forget()
		took(where+"-get", moment+"/api/v1/namespaces/default/pods/web-77")
		forget()
		took(where+"-page", moment+"/api/v1/pods?limit=500")
		took(where+"-again", moment+"/api/v1/pods?limit=500")
		forget()
		took(where+"-list", moment+"/api/v1/pods")
	}
	began := time.Now()
	n := 0
	ok(b, reader.Changes(b.Context(), sinks.Query{Resources: []string{"pods"}, Namespace: "default", Name: "web-77"}, func(*sinks.Logged) error { n++; return nil }))
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "history-ms")
	b.ReportMetric(float64(n), "history")
	began = time.Now()
	last := 0
	for n = 0; time.Since(began) < 5*time.Second; n++ {
		last = more(1)
	}
	b.ReportMetric(float64(n)/5, "batches/s")
	began = time.Now()
	for a := (answer{}); !strings.Contains(string(a.body), fmt.Sprintf(`"resourceVersion":"%d"`, last)); {
		a = p.ours("/api/v1/pods?limit=1", asObjects)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "lag-ms")
	began = time.Now()
	a := p.ours(fmt.Sprintf("/api/v1/pods?watch=1&timeoutSeconds=5&resourceVersion=%d", b.N), asObjects)
	b.ReportMetric(float64(strings.Count(string(a.body), `"type":"MODIFIED"`)), "watched")
	b.ReportMetric(time.Since(began).Seconds(), "watch-s")
	var lasts atomic.Int64
	go func() {
		for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(time.Until(began.Add(time.Duration(lasts.Load()) * time.Millisecond))) {
			more(100)
			lasts.Add(100)
		}
	}()
	a = p.ours(fmt.Sprintf("/api/v1/pods?watch=1&timeoutSeconds=7&resourceVersion=%d", last), asObjects)
	if got := strings.Count(string(a.body), `"type":"MODIFIED"`); got != int(lasts.Load()) {
		b.Errorf("a watch of %d new changes has %d", lasts.Load(), got)
	}
	b.ReportMetric(float64(lasts.Load())/5, "live/s")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "MB")
}

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

func sqliteLog(b testing.TB) (sinks.Log, sinks.Reader) {
	path := filepath.Join(b.TempDir(), "log")
	file := must[*sqlitefile.File](b)(sqlitefile.Own(b.Context(), path))
	sink := must[*sqlite.Sink](b)(sqlite.New(b.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: "u", BodyCacheBytes: 64 << 20}))
	return opened(b, sink), must[*sqlite.Reader](b)(sqlite.NewReader(b.Context(), file, cluster))
}

func postgresLog(b testing.TB) (sinks.Log, sinks.Reader) {
	config := postgres.Config{URL: servers.Database(b), Cluster: cluster, ClusterUID: "u"}
	sink := must[*postgres.Sink](b)(postgres.Open(b.Context(), config))
	b.Cleanup(func() { sink.Close() })
	return opened(b, sink), must[*postgres.Reader](b)(postgres.OpenReader(b.Context(), config))
}

// mirrorLog is a log in Kafka, which is read from its mirror. It also measures what the filling of the mirror takes.
func mirrorLog(b *testing.B) (sinks.Log, func(func(int) int) sinks.Reader) {
	config := kafka.Config{Brokers: servers.SharedKafka(b).Brokers, TopicPrefix: fmt.Sprint("bench-", b.N), Cluster: cluster, ClusterUID: "u",
		Partitions: 1, Logger: slog.New(slog.DiscardHandler)}
	sink := must[*kafka.Sink](b)(kafka.New(config))
	b.Cleanup(func() { sink.Close() })
	return opened(b, sink), func(more func(int) int) sinks.Reader {
		o := mirror.Options{Path: filepath.Join(b.TempDir(), "log.mirror"), History: sinks.Forever, Logger: slog.New(slog.DiscardHandler)}
		m := must[*mirror.Mirror](b)(mirror.Open(b.Context(), must[*kafka.Reader](b)(kafka.OpenReader(b.Context(), config)), o))
		runtime.GC()
		ok(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // or the peak of what came before remains
		began, before := time.Now(), used(b)
		ok(b, m.Update(b.Context()))
		after := used(b)
		b.ReportMetric(time.Since(began).Seconds(), "mirror-s")
		b.ReportMetric(after["cpu"]-before["cpu"], "mirror-cpu-s")
		b.ReportMetric((after["write_bytes:"]-before["write_bytes:"])/1e6, "mirror-written-MB")
		b.ReportMetric(float64(must[os.FileInfo](b)(os.Stat(o.Path)).Size())/1e6, "mirror-MB")
		b.ReportMetric(after["VmHWM:"]/1e3, "mirror-peak-MB")
		more(1) // or the log ends long ago, if the copying took long
		ok(b, m.Update(b.Context()))
		go func() { _ = m.Run(b.Context()) }()
		file := must[*sqlitefile.File](b)(sqlitefile.Share(b.Context(), o.Path))
		return must[*sqlite.Reader](b)(sqlite.NewReader(b.Context(), file, cluster))
	}
}

// used is what the process has taken so far: seconds of processor time, bytes written, the peak of memory.
func used(b *testing.B) map[string]float64 {
	var u syscall.Rusage
	ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	found := map[string]float64{"cpu": time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()}
	for _, name := range []string{"io", "status"} {
		for line := range strings.Lines(string(must[[]byte](b)(os.ReadFile("/proc/self/" + name)))) {
			if fields := strings.Fields(line); len(fields) > 1 {
				found[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
			}
		}
	}
	return found
}

func opened(b testing.TB, sink sinks.Sink) sinks.Log {
	o := must[*sinks.Opened](b)(sink.Open(b.Context(), 0, 1, sinks.Durable{New: true}))
	b.Cleanup(func() { o.Log.Close() })
	return o.Log
}

// fill writes a log of objects and their updates. It returns a function that writes more updates, and
// returns the last version.
func fill(b *testing.B, log sinks.Log, objects, updates int) (more func(updates int) (version int)) {
	next, last, version := change.Batch{Epoch: 1}, make([][]byte, objects), 0
	flush := func() {
		next.Seq++
		next.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(version)), Time: time.Now()}}
		if next.Controls = nil; next.Seq == 1 {
			next.Controls = []change.Control{change.SnapshotBeginControl(pods.ID(), "")}
		}
		_, err := log.Write(b.Context(), &next)
		ok(b, err)
		next.Changes = next.Changes[:0]
	}
	write := func(name int, op change.Op) {
		version++
		before := last[name]
		last[name] = fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"default","uid":"u%d","resourceVersion":"%d",`+
			`"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"app","image":"registry.example.com/app:%d","env":[%s]}]},"status":{"phase":"Running"}}`,
			name, name, version, name, strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"name":"SETTING","value":"%d"},`, name), 30), ","))
		next.Changes = append(next.Changes, change.Change{Stream: pods, Op: op, Namespace: "default", Name: fmt.Sprint("web-", name), Before: before, UID: fmt.Sprint("u", name),
			ResourceVersion: change.VersionOf(uint64(version)), Time: time.Now(), After: last[name]})
		if len(next.Changes) == 500 {
			flush()
		}
	}
	for i := range objects {
		write(i, change.Create)
	}
	more = func(updates int) int {
		for range updates {
			write(rand.N(objects), change.Update)
		}
		flush()
		return version
	}
	more(updates)
	return more
}
