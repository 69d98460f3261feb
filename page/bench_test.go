package page_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/serve"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// BenchmarkPage asks for pages of a log of b.N updates (-benchtime=1000000x) of 10,000 Pods in a month, in batches of 20.
func BenchmarkPage(b *testing.B) {
	file, err := sqlitefile.Own(b.Context(), filepath.Join(b.TempDir(), "log"))
	must(b, err)
	defer file.Close()
	sink, err := sqlite.New(b.Context(), file, sqlite.Config{Cluster: "c"})
	must(b, err)
	fillMonth(b, sink, b.N)
	reader, err := sqlite.NewReader(b.Context(), file, "c")
	must(b, err)
	server := serve.NewClusters(reader, nil, slog.New(slog.DiscardHandler), nil)
	for _, page := range []struct{ name, query string }{{"hour", ""}, {"hour-again", ""}, {"day", "since=24h"}, {"namespace", "since=24h&namespace=ns-3"},
		{"life", "type=pods&namespace=ns-7&name=web-77"}, {"state", "at=2h&type=pods&namespace=ns-3"}, {"types", "at=now"},
		{"diff", "from=2h&to=1h&type=pods&namespace=ns-3"}} {
		runtime.GC()
		r := httptest.NewRequest(http.MethodGet, "/?"+page.query, nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		began := time.Now()
		server.ServeHTTP(w, r)
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, page.name+"-ms")
		if w.Code != http.StatusOK {
			b.Errorf("%s: %d %.600s", page.name, w.Code, w.Body.String()[strings.Index(w.Body.String(), "<main"):])
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "MB")
}

func fillMonth(b *testing.B, sink *sqlite.Sink, updates int) {
	to, _, err := sink.NewCopy(b.Context())
	must(b, err)
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	const objects, each = 10_000, 20
	last := make([][]byte, objects)
	now := time.Now().Add(-time.Minute)
	began, month := now.Add(-30*24*time.Hour), 30*24*time.Hour
	version, seq := 0, uint64(0)
	var copied []sinks.Copied
	flush := func(op change.Op, name func(int) int, changes int, when time.Time) {
		batch := change.Batch{Epoch: 1}
		for i := range changes {
			n := name(i)
			version++
			before := last[n]
			last[n] = fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"ns-%d","uid":"u%d","resourceVersion":"%d"},`+
				`"spec":{"containers":[{"name":"app","image":"registry.example.com/app:%d"}],"env":%q},"status":{"phase":"Running","v":%d}}`,
				n, n%10, n, version, version/7, strings.Repeat("x", 600), version)
			batch.Changes = append(batch.Changes, change.Change{Stream: pods, Op: op, Namespace: fmt.Sprint("ns-", n%10), Name: fmt.Sprint("web-", n), UID: fmt.Sprint("u", n),
				Before: before, ResourceVersion: change.VersionOf(uint64(version)), Time: when, After: last[n]})
		}
		batch.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(version)), Time: when}}
		if op == change.Read {
			batch.Controls = []change.Control{change.SnapshotBeginControl(pods.ID(), ""), change.SnapshotEndControl(pods.ID(), change.VersionOf(uint64(version)), objects)}
		}
		seq++
		batch.Seq = seq
		copied = append(copied, sinks.Copied{Cluster: "c", Logged: when, Batch: batch})
		if len(copied) >= 100 || op == change.Read || version >= objects+updates {
			must(b, to.Write(b.Context(), copied, sqlite.Copied{Identity: "i"}))
			copied = nil
		}
	}
	flush(change.Read, func(i int) int { return i }, objects, began)
	for i := range updates / each {
		flush(change.Update, func(int) int { return rand.N(objects) }, each, began.Add(month/time.Duration(updates/each)*time.Duration(i+1)))
	}
}
