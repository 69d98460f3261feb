package status

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
)

// failing returns a status of streams that each have an error of one cause. The text may contain the stream's number.
func failing(streams int, servers []Problem, text, cause string, code ...string) *Status {
	all := servers
	for i := range streams {
		p := wrongStream(change.StreamID(fmt.Sprintf("kind%d.example.com", i)), strings.ReplaceAll(text, "#", fmt.Sprint(i)), cause)
		p.Code, p.Since = strings.Join(code, ""), now.Add(time.Duration(-i)*time.Second)
		all = append(all, p)
	}
	return Make(options, &Stored{Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true, Selected: []change.StreamID{}}}}, running(all...))
}

// Streams that fail for one reason are one problem, whatever each requested.
func TestOneCauseOfManyStreamsIsOneProblem(t *testing.T) {
	for text, cause := range map[string]string{"list kind#: no": "no", "paused by signal 1#": "paused by a signal", "EOF": ""} {
		s, want := failing(200, nil, text, cause), cmp.Or(cause, text)
		if len(s.Problems) != 1 || s.Problems[0].Text != want || s.Problems[0].Count != 200 || len(s.Problems[0].Names) != mostNames {
			t.Errorf("%s: it says %+v", text, s.Problems[:min(len(s.Problems), 3)])
			continue
		}
		if p := s.Problems[0]; p.Component != "streams" || p.Since != now.Add(-199*time.Second).UTC() || p.Help == "" || p.See == "" {
			t.Errorf("%s: it says %+v", text, p)
		}
		var table strings.Builder
		s.WriteTable(&table)
		if !strings.Contains(table.String(), "200 streams: kind0.example.com") || !strings.Contains(table.String(), "and 195 more") {
			t.Errorf("%s: the table has\n%s", text, table.String()[:500])
		}
	}
	if s := failing(1, nil, "kind# is forbidden: no", "forbidden: no"); s.Problems[0].Text != "kind0 is forbidden: no" || s.Problems[0].Component != "stream kind0.example.com" {
		t.Errorf("one stream's problem is %+v", s.Problems)
	}
	paused := failing(3, nil, "paused by signal #", "paused by a signal", string(change.StatePaused)).Problems[0]
	other := failing(1, nil, "paused by signal 7", "paused by a signal", string(change.StatePaused)).Problems[0]
	if paused.Help != other.Help || !strings.Contains(paused.Help, "resume") {
		t.Errorf("to pauses it says %q and %q", paused.Help, other.Help)
	}
}

// The API server's answer decides what is advised, whatever its text.
func TestTheAnswerDecidesOnTheAdvice(t *testing.T) {
	for status, want := range map[int32]string{401: "credentials", 403: "rights", 0: "search"} {
		p := wrongStream("pods", "no")
		p.Status = status
		if s := Make(options, nil, running(p)); !strings.Contains(s.Problems[0].Help, want) {
			t.Errorf("to %d it says %q", status, s.Problems[0].Help)
		}
	}
}

// What kind of problem it is decides on the advice, whatever its text.
func TestTheKindOfAProblemDecidesOnTheAdvice(t *testing.T) {
	no := errors.New("no")
	for want, report := range map[string]func(*live.Exporter){
		"exporter resume":        func(e *live.Exporter) { e.StreamState("pods", change.StatePaused, no) },
		"leave the resource out": func(e *live.Exporter) { e.StreamState("pods", change.StateUnsupported, no) },
		"search":                 func(e *live.Exporter) { e.StreamState("pods", change.StateWaiting, no) },
		"make room":              func(e *live.Exporter) { e.Fails(dependency.Checkpoint, &fault.Database{Err: no, Full: true}) },
		"exporter check":         func(e *live.Exporter) { e.Fails(dependency.Checkpoint, no) },
	} {
		e := live.New(slog.New(slog.DiscardHandler), 0)
		report(e)
		if s := Make(options, nil, e.Snapshot()); len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Help, want) {
			t.Errorf("it says %+v, want %q", s.Problems, want)
		}
	}
}

// A server's own problem comes first, and lists the streams that fail for the same reason.
func TestTheServerComesBeforeItsVictims(t *testing.T) {
	refused := "dial tcp 10.0.0.1:6443: connect: connection refused"
	s := failing(20, []Problem{wrong("slot 3", "not held yet"), wrong("apiserver", "no answer since 12:00; last error: "+refused)},
		`Get "https://10.0.0.1:6443/api/v1/kind#": `+refused, refused)
	if len(s.Problems) != 2 || s.Problems[0].Component != "apiserver" || s.Problems[0].Count != 20 || s.Problems[1].Component != "slot 3" {
		t.Errorf("it says %+v", s.Problems)
	}
	s = failing(3, []Problem{wrongStream("pods", "etcd is compacted"), wrong("sink", "no leader")}, "x# is forbidden: no", "forbidden: no")
	if got := problems(s); got != "sink: no leader\nstreams: forbidden: no\nstream pods: etcd is compacted" {
		t.Errorf("the order is\n%s", got)
	}
}

// A gap of many streams is one problem with one progress.
func TestTheRecoveryOfManyStreamsIsOneProblem(t *testing.T) {
	e := live.New(slog.New(slog.DiscardHandler), 1)
	for i := range 36 {
		id := change.StreamID(fmt.Sprintf("kind%d.example.com", i))
		e.StreamAdded(0, id, nil)
		e.RecoveryProgress(id, i, 100, 2)
	}
	report := ReportOf(e.Snapshot()).Short()
	if got := report.Problems[1]; got.Count != 36 || got.Text != "recovers what its watch missed: 630 of 3600 revisions accounted for, 72 requests" {
		t.Errorf("%+v", report.Problems)
	}
}

// Past problems are shown for a while, by cause, the latest first.
func TestWhatWasWrong(t *testing.T) {
	process := &live.Snapshot{}
	for i := range 300 {
		past := live.Past{Stream: change.StreamID(fmt.Sprintf("kind%d", i)), Until: now.Add(-time.Minute),
			Problem: live.Problem{Text: fmt.Sprintf(`Get "https://k/kind%d": EOF`, i), Cause: "EOF", Since: now.Add(-time.Hour)}}
		process.Past = append(process.Past, past, past)
	}
	for i := range 8 {
		process.Past = append(process.Past, live.Past{Component: "sink", Until: now.Add(time.Duration(-10-i) * time.Minute),
			Problem: live.Problem{Text: fmt.Sprint("no leader of topic t", i), Since: now.Add(-time.Hour)}})
	}
	s := Make(options, &Stored{Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true, Selected: []change.StreamID{}}}}, process)
	if len(s.Past) != mostPast || s.Past[0].Count != 300 || s.Past[0].Text != "EOF" || s.Past[1].Text != "no leader of topic t0" || !s.Healthy {
		t.Errorf("it shows %+v", s.Past)
	}
	if _, page := get(t, serve(t, func() *Status { return s }).URL+"/"); !strings.Contains(text(page), "What was wrong before (5) streams : EOF") {
		t.Error("the page lacks it")
	}
}

// All advice leads to a section that exists.
func TestAdviceLeadsToASection(t *testing.T) {
	var all []advice
	for _, kind := range []sinks.Kind{kafka.Kind, postgres.Kind, sqlite.Kind} {
		all = append(all, advice{see: kind.Page})
	}
	for key, a := range advices {
		if key != dependency.Sink { // it leads to the sink's own page
			all = append(all, a)
		}
	}
	for _, a := range all {
		page, section, _ := strings.Cut(a.see, "#")
		text, err := os.ReadFile("../" + page)
		must(t, err)
		found := false
		for line := range strings.Lines(string(text)) {
			title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			found = found || strings.HasPrefix(line, "#") && strings.ReplaceAll(strings.ReplaceAll(title, ",", ""), " ", "-") == section
		}
		if !found {
			t.Errorf("there is no %s", a.see)
		}
	}
}

// A failure of the API server is one problem of all streams, also in /readyz. Only streams that can't start block readiness.
func TestReadinessGroupsStreamsByCause(t *testing.T) {
	since := time.Unix(1_000, 0)
	r := Report{Problems: []Reported{{Problem: wrong("slot 0", "not held yet")}}}
	for i := range 60 {
		id := change.StreamID(fmt.Sprintf("r%02d.example.com", i))
		r.Problems = append(r.Problems, Reported{wrongStream(id, fmt.Sprintf("watch r%02d.example.com: Unauthorized", i), "Unauthorized"), i%2 == 0})
		r.Problems[i+1].Since = since.Add(-time.Duration(i))
	}
	short := r.Short().Problems
	if len(short) != 3 || !short[0].Blocks || short[0].Count != 30 || len(short[0].Names) != mostNames || short[1].Component != "slot 0" || short[2].Count != 30 ||
		!short[2].Since.Equal(since.Add(-59)) {
		t.Errorf("the problems are %+v", short)
	}
}
