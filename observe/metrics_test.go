package observe

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
)

var update = flag.Bool("update", false, "write docs/monitoring.md")

// value returns the value of the metric's only series with these labels.
func value(t *testing.T, m *Metrics, name string, labels ...string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, s := range f.GetMetric() {
			has := map[string]bool{}
			for _, l := range s.GetLabel() {
				has[l.GetName()+"="+l.GetValue()] = true
			}
			all := f.GetName() == "kubecdc_"+name
			for _, l := range labels {
				all = all && has[l]
			}
			if all {
				return s.GetGauge().GetValue() + s.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("/metrics has no %s %v", name, labels)
	return 0
}

func TestMetricsFollowTheConventionsOfPrometheus(t *testing.T) {
	e, _ := observed(t, 1)
	showAll(e, "pods")
	families, err := e.Metrics.registry.Gather()
	must(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "kubecdc_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// showAll gives a stream every metric that a stream can have.
func showAll(e *observedExporter, stream change.StreamID) {
	e.StreamAdded(0, stream, func() int64 { return 3 })
	e.RecoveryProgress(stream, 1, 2, 1)
	proof := change.Control{Type: change.ControlProof, Stream: stream, Proof: &change.Proof{Result: change.ProofEqual}}
	e.Exporter.Committed(live.Committed{Batch: &change.Batch{Controls: []change.Control{proof}}})
}

// Before anything has happened every metric exists, except metrics of streams that are not known yet. The page docs/monitoring.md
// lists all.
func TestEveryMetricIsThereFromTheStart(t *testing.T) {
	e, _ := observed(t, 1)
	m := e.Metrics
	showAll(e, "pods")
	families, err := m.registry.Gather()
	must(t, err)
	there := map[string]bool{}
	for _, f := range families {
		there[f.GetName()] = true
	}
	mirror := newMirror(time.Now)
	families, err = mirror.Gather()
	must(t, err)
	for _, f := range families {
		there[f.GetName()] = true
	}
	page := ""
	for _, d := range append(m.registry.described, mirror.described...) {
		if !there[d.name] {
			t.Errorf("%s is not there from the start", d.name)
		}
		delete(there, d.name)
		page += row(d) + "\n"
	}
	for name := range there {
		if strings.HasPrefix(name, "kubecdc_") {
			t.Errorf("%s is not described", name)
		}
	}
	const file, mark = "../docs/monitoring.md", "<!-- from observe/metrics.go, by make docs -->\n"
	text, err := os.ReadFile(file)
	must(t, err)
	head, _, found := strings.Cut(string(text), mark)
	if want := head + mark + page; *update {
		err = os.WriteFile(file, []byte(want), 0o644)
	} else if !found || string(text) != want {
		t.Errorf("%s is not up to date: make docs", file)
	}
	must(t, err)
}

// While the sink fails from the start, no session reads a stream. Its lag grows anyway, also over failed sessions.
func TestTheLagGrowsWhileNoSessionReads(t *testing.T) {
	e, _ := observed(t, 1)
	now := time.Now()
	e.Now = func() time.Time { return now }
	e.SlotStreams(0, []change.Position{{Stream: "pods", Time: now.Add(-time.Hour)}, {Stream: "nodes"}})
	lag := func(stream string, want time.Duration) {
		t.Helper()
		if got := value(t, e.Metrics, "stream_lag_seconds", "stream="+stream); got != want.Seconds() {
			t.Errorf("the lag of %s is %v s, not %s", stream, got, want)
		}
	}
	e.Problem(0, dependency.Tag(dependency.Sink, errors.New("no broker")))
	now = now.Add(time.Minute)
	lag("pods", time.Hour+time.Minute)
	lag("nodes", time.Minute)
	if value(t, e.Metrics, "dependency_up", "dependency=sink") != 0 || value(t, e.Metrics, "dependency_up", "dependency=checkpoint") != 1 ||
		value(t, e.Metrics, "session_failures_total", "slot=0") != 1 || value(t, e.Metrics, "slot_held", "slot=0") != 0 {
		t.Error("the failing sink is not shown")
	}

	e.StreamState("pods", change.StateBackfilling, nil)
	e.RecoveryProgress("pods", 10, 40, 1)
	lag("pods", time.Hour+time.Minute)
	e.StreamState("pods", change.StateWatching, nil)
	lag("pods", 0)

	// The sink accepts nothing more. The session fails, and the next one can't open the log.
	read := now
	e.Buffering(0, func() live.Fill {
		return live.Fill{Streams: map[change.StreamID]time.Time{"pods": read}}
	})
	now = now.Add(time.Minute)
	lag("pods", time.Minute)
	e.StreamsStopped(0)
	e.Buffering(0, nil)
	e.SlotStreams(0, []change.Position{{Stream: "pods", Time: now.Add(-time.Hour)}, {Stream: "nodes"}})
	now = now.Add(time.Minute)
	lag("pods", 2*time.Minute)
}

// While the start waits for the sink, the streams of the checkpoint fall behind. Once the slots are shared, other replicas'
// streams are dropped.
func TestTheLagGrowsWhileTheStartWaits(t *testing.T) {
	e, _ := observed(t, 2)
	now := time.Now()
	e.Now = func() time.Time { return now }
	e.StreamsFound([]change.Position{{Stream: "pods", Time: now}, {Stream: "nodes", Time: now}, {Stream: "gone", Ended: change.EndedDeselected}})
	e.Waits(dependency.Sink, errors.New("waiting for the sink"))
	now = now.Add(time.Hour)
	for _, stream := range []string{"pods", "nodes"} {
		if lag := value(t, e.Metrics, "stream_lag_seconds", "stream="+stream); lag != 3600 {
			t.Errorf("the lag of %s is %v", stream, lag)
		}
	}
	if value(t, e.Metrics, "dependency_up", "dependency=sink") != 0 || value(t, e.Metrics, "streams", "state=new") != 2 {
		t.Error("the wait for the sink is not shown")
	}
	e.SlotStreams(0, []change.Position{{Stream: "pods", Time: now}})
	e.ReplicaStatus(ownership.Status{Replicas: 2, Share: 1})
	if n := value(t, e.Metrics, "streams", "state=new"); n != 1 {
		t.Errorf("%v streams are left", n)
	}
}

// A stream in the checkpoint that the settings do not select is not shown after its end is in the log.
func TestADeselectedStreamIsNotShown(t *testing.T) {
	e, _ := observed(t, 1)
	e.SlotStreams(0, []change.Position{{Stream: "pods", Time: time.Now()}})
	for _, want := range []float64{1, 0} {
		if n := value(t, e.Metrics, "streams", "state=new"); n != want {
			t.Errorf("%v streams are shown, want %v", n, want)
		}
		e.Exporter.Committed(live.Committed{Batch: &change.Batch{Positions: []change.Position{{Stream: "pods", Ended: change.EndedDeselected}}}})
	}
}

// The lag of a quiet stream is 0 between its bookmarks. Another metric has the time of its last confirmation.
func TestTheLagDoesNotFollowBookmarks(t *testing.T) {
	e, _ := observed(t, 1)
	now := time.Unix(1_800_000_000, 0)
	e.Now = func() time.Time { return now }
	e.StreamState("pods", change.StateWatching, nil)
	for range 5 {
		e.Exporter.Committed(live.Committed{Batch: &change.Batch{Positions: []change.Position{{Stream: "pods", Time: now}}}})
		confirmed := float64(now.Unix())
		now = now.Add(time.Minute)
		if lag := value(t, e.Metrics, "stream_lag_seconds"); lag != 0 {
			t.Errorf("a minute after a bookmark the lag is %v s", lag)
		}
		if got := value(t, e.Metrics, "stream_confirmed_timestamp_seconds"); got != confirmed {
			t.Errorf("confirmed at %v, not %v", got, confirmed)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestsAreCountedByAnswer(t *testing.T) {
	e, _ := observed(t, 0)
	answer, failure := &http.Response{StatusCode: 200}, error(nil)
	counted := e.Metrics.CountRequests(transport(func(*http.Request) (*http.Response, error) { return answer, failure }))
	ask := func(query string) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/api/v1/pods"+query, nil)
		if _, err := counted.RoundTrip(req); !errors.Is(err, failure) {
			t.Error(err)
		}
	}
	ask("?watch=1")
	ask("?limit=500")
	answer.StatusCode = 429
	ask("?limit=500")
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("the session failed"))
	failure = errors.New("refused")
	req, _ := http.NewRequestWithContext(stopped, http.MethodGet, "http://x/api/v1/pods", nil)
	_, _ = counted.RoundTrip(req)
	if value(t, e.Metrics, "dependency_up", "dependency=apiserver") != 1 {
		t.Error("an API server is down whose answer nobody waits for")
	}
	ask("")
	for _, want := range [][2]string{{"verb=watch", "code=200"}, {"verb=list", "code=200"}, {"verb=list", "code=429"}, {"verb=get", "code=error"}} {
		if n := value(t, e.Metrics, "apiserver_requests_total", want[:]...); n != 1 {
			t.Errorf("%v: %v", want, n)
		}
	}
	if value(t, e.Metrics, "dependency_up", "dependency=apiserver") != 0 {
		t.Error("an API server that does not answer is up")
	}
}

// A batch's changes are counted without a search by labels for each.
func BenchmarkBatch(b *testing.B) {
	m := observing(0).Metrics
	pods := change.NewStream(change.Resource{Plural: "pods"}, "", "", "")
	batch := &change.Batch{Changes: make([]change.Change, 1000)}
	for i := range batch.Changes {
		batch.Changes[i] = change.Change{Stream: pods, Op: change.Update}
	}
	for b.Loop() {
		m.batch(batch)
	}
}

// The metrics show whether audit events arrive: what happened to each, and when the last ones came.
func TestAuditEventsAreCounted(t *testing.T) {
	m := observing(0).Metrics
	if m.AuditEvents(audit.Tally{}); value(t, m, "audit_last_event_timestamp_seconds") != 0 {
		t.Error("there is a time without an event")
	}
	began := float64(time.Now().Unix())
	m.AuditEvents(audit.Tally{Records: 2, Skipped: 1})
	if value(t, m, "audit_events_total", "result=kept") != 2 || value(t, m, "audit_last_event_timestamp_seconds") < began {
		t.Error("events have come, and the metrics do not say so")
	}
}

// row returns the metric's line in the page's list: name, type, labels and meaning.
func row(d description) string {
	return "- `" + d.name + "` (" + strings.Join(append([]string{d.kind}, d.labels...), ", ") + "): " + d.help
}
