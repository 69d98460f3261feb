package status

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
)

// failing returns a status of streams that each have an error. The text may contain the stream's number.
func failing(streams int, servers []Problem, text string) *Status {
	all := servers
	for i := range streams {
		id := change.StreamID(fmt.Sprintf("kind%d.example.com", i))
		all = append(all, Problem{Stream: id, Text: strings.ReplaceAll(text, "#", fmt.Sprint(i)), Since: now.Add(time.Duration(-i) * time.Second)})
	}
	return Make(options, &Stored{Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true, Selected: []change.StreamID{}}}}, running(all...))
}

// Streams that fail for one reason are one problem, whatever each requested.
func TestOneCauseOfManyStreamsIsOneProblem(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a connection": {`Get "https://10.0.0.1:6443/apis/example.com/v1/kind#?watch=1": dial tcp 10.0.0.1:6443: connect: connection refused`,
			"dial tcp 10.0.0.1:6443: connect: connection refused"},
		"an open connection": {"read tcp 10.1.0.7:4#->10.0.0.1:6443: read: connection reset by peer", "read tcp 10.0.0.1:6443: read: connection reset by peer"},
		"rights": {`list kind#.example.com: kind#.example.com is forbidden: User "a" cannot list resource "kind#" in API group "example.com" at the cluster scope`,
			`forbidden: User "a" cannot list at the cluster scope`},
		"a pause": {"paused by signal 1#", "paused by a signal"},
	} {
		s := failing(200, nil, c.text)
		if len(s.Problems) != 1 || s.Problems[0].Text != c.want || s.Problems[0].Count != 200 || len(s.Problems[0].Names) != mostNames {
			t.Errorf("%s: it says %+v", name, s.Problems[:min(len(s.Problems), 3)])
			continue
		}
		if p := s.Problems[0]; p.Component != "streams" || p.Since != now.Add(-199*time.Second).UTC() || p.Help == "" || p.See == "" {
			t.Errorf("%s: it says %+v", name, p)
		}
		var table strings.Builder
		s.WriteTable(&table)
		if !strings.Contains(table.String(), "200 streams: kind0.example.com") || !strings.Contains(table.String(), "and 195 more") {
			t.Errorf("%s: the table has\n%s", name, table.String()[:500])
		}
	}
	if s := failing(1, nil, "kind# is forbidden: no"); s.Problems[0].Text != "kind0 is forbidden: no" || s.Problems[0].Component != "stream kind0.example.com" {
		t.Errorf("one stream's problem is %+v", s.Problems)
	}
}

// A server's own problem comes first, and lists the streams that fail for the same reason.
func TestTheServerComesBeforeItsVictims(t *testing.T) {
	refused := "dial tcp 10.0.0.1:6443: connect: connection refused"
	servers := []Problem{{Component: "slot 3", Text: "not held yet"},
		{Component: "apiserver", Text: `no answer since 12:00; last error: Get "https://10.0.0.1:6443/version": ` + refused}}
	s := failing(20, servers, `Get "https://10.0.0.1:6443/api/v1/kind#": `+refused)
	if len(s.Problems) != 2 || s.Problems[0].Component != "apiserver" || s.Problems[0].Count != 20 || s.Problems[1].Component != "slot 3" {
		t.Errorf("it says %+v", s.Problems)
	}
	one := Problem{Component: "stream", Stream: "pods", Text: "etcd is compacted", Since: now}
	s = failing(3, []Problem{one, {Component: "sink", Text: "no leader"}}, "x# is forbidden: no")
	if got := problems(s); got != "sink: no leader\nstreams: forbidden: no\nstream pods: etcd is compacted" {
		t.Errorf("the order is\n%s", got)
	}
}

// A gap of many streams is one problem with one progress.
func TestTheRecoveryOfManyStreamsIsOneProblem(t *testing.T) {
	s := failing(36, nil, "recovers what its watch missed: # of 100 revisions accounted for, 2 requests")
	if got := problems(s); got != "streams: recovers what its watch missed: 630 of 3600 revisions accounted for, 72 requests" {
		t.Error(got)
	}
}

// Past problems are shown for a while, by cause, the latest first.
func TestWhatWasWrong(t *testing.T) {
	process := &live.Snapshot{}
	for i := range 300 {
		process.Past = append(process.Past, live.Past{Stream: change.StreamID(fmt.Sprintf("kind%d", i)), Component: "stream ",
			Text: fmt.Sprintf(`Get "https://k/kind%d": EOF`, i), Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)})
	}
	for i := range 8 {
		process.Past = append(process.Past, live.Past{Component: "sink", Text: fmt.Sprint("no leader of topic t", i), Since: now.Add(-time.Hour),
			Until: now.Add(time.Duration(-10-i) * time.Minute)})
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
	all := []advice{{see: "docs/operations.md#errors-from-a-to-z"}}
	for _, a := range byComponent {
		all = append(all, a)
	}
	for _, a := range byText {
		all = append(all, a.advice)
	}
	for _, a := range all {
		page, section, _ := strings.Cut(a.see, "#")
		text, err := os.ReadFile("../" + page)
		if err != nil {
			t.Fatal(err)
		}
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
	var r Report
	for i := range 60 {
		id := change.StreamID(fmt.Sprintf("r%02d.example.com", i))
		r.Problems = append(r.Problems, Reported{Problem{Text: fmt.Sprintf("watch r%02d.example.com: Unauthorized", i), Stream: id, Since: since.Add(-time.Duration(i))}, i%2 == 0})
	}
	r.Problems = append(r.Problems, Reported{Problem: Problem{Component: "slot 0", Text: "not held yet"}})
	short := r.Short().Problems
	if len(short) != 3 || !short[0].Blocks || short[0].Count != 30 || len(short[0].Names) != mostNames || short[1].Component != "slot 0" || short[2].Count != 30 ||
		!short[2].Since.Equal(since.Add(-59)) {
		t.Errorf("the problems are %+v", short)
	}
}
