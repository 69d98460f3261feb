package status

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
)

var now = time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)

var options = Options{Cluster: "prod", Now: now, StaleAfter: 5 * time.Minute}

func confirmed(stream change.StreamID, ago time.Duration) change.Position {
	return change.Position{Stream: stream, ResourceVersion: "77", Time: now.Add(-ago)}
}

func gapAt(stream change.StreamID, ago time.Duration, complete bool) change.Control {
	return change.Control{Type: change.ControlGap, Stream: stream, TimeMs: now.Add(-ago).UnixMilli(),
		Gap: &change.Gap{From: "5", To: "9", Complete: complete, Reason: "etcd was compacted"}}
}

func proofAt(stream change.StreamID, ago time.Duration, result change.ProofResult) change.Control {
	p := &change.Proof{Result: result, Objects: 3}
	if result == change.ProofDifferent {
		p.Missing.Add("shop/a-secret-name")
	}
	return change.Control{Type: change.ControlProof, Stream: stream, ResourceVersion: "9", TimeMs: now.Add(-ago).UnixMilli(), Proof: p}
}

// wrong returns a problem of a component.
func wrong(component, text string) Problem {
	return Problem{Component: component, Problem: live.Problem{Text: text, Since: now}}
}

// wrongStream returns a problem of a stream. Its cause is the text, or the text given.
func wrongStream(id change.StreamID, text string, cause ...string) Problem {
	return Problem{Stream: id, Problem: live.Problem{Text: text, Cause: strings.Join(cause, ""), Since: now}}
}

// running returns a process with problems of components or streams.
func running(problems ...Problem) *live.Snapshot {
	s := &live.Snapshot{Problems: map[string]*live.Problem{}, Stalls: map[string]*live.Problem{}, Streams: map[change.StreamID]live.Stream{}}
	for _, p := range problems {
		v := &p.Problem
		switch {
		case p.Stream != "":
			s.Streams[p.Stream] = live.Stream{Session: live.Session{Added: true, State: "waiting", Problem: v}}
		case s.Problems[p.Component] != nil:
			s.Stalls[p.Component] = v
		default:
			s.Problems[p.Component] = v
		}
	}
	return s
}

// watching returns a process that watches a stream.
func watching(p change.Position) *live.Snapshot {
	session := live.Session{Added: true, State: "watching", Settled: true, Position: p}
	return &live.Snapshot{Streams: map[change.StreamID]live.Stream{p.Stream: {Session: session}}}
}

// problems returns a line for each problem.
func problems(s *Status) string {
	var lines []string
	for _, p := range s.Problems {
		lines = append(lines, p.Component+": "+p.Text)
	}
	return strings.Join(lines, "\n")
}

func TestWhatIsWrong(t *testing.T) {
	held := checkpoint.SlotOwner{Owner: "a", Held: true, Selected: []change.StreamID{}}
	for _, c := range []struct {
		name   string
		stored Stored
		live   *live.Snapshot
		want   string // problems, or empty if there are none
	}{
		{"all streams were confirmed", Stored{Positions: []change.Position{confirmed("pods", time.Minute)}}, nil, ""},
		{"a stream was not confirmed", Stored{Positions: []change.Position{confirmed("pods", 6*time.Minute)}}, nil,
			"stream pods: not confirmed to be complete beyond resourceVersion 77"},
		{"a deselected stream need not be", Stored{Positions: []change.Position{
			{Stream: "pods", ResourceVersion: "7", Time: now.Add(-time.Hour), Ended: change.EndedDeselected}}}, nil, ""},
		{"a first list is not complete", Stored{Positions: []change.Position{{Stream: "pods@shop"}}}, nil,
			"stream pods in shop: its first list is not complete"},
		{"a selected stream was never listed", Stored{Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true,
			Selected: []change.StreamID{"pods", "secrets@shop"}}}, Positions: []change.Position{confirmed("pods", 0)}}, nil,
			"stream secrets in shop: its first list is not complete"},
		{"nobody has recorded what is selected", Stored{Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true}},
			Positions: []change.Position{confirmed("pods", 0)}}, nil,
			"slot 0: the checkpoint does not say which streams it has: a has not come so far, or is of an earlier release"},
		{"a snapshot on demand is no stream", Stored{Positions: []change.Position{{Stream: "snapshot/pods"}}}, nil, ""},
		{"a gap is not complete", Stored{Positions: []change.Position{confirmed("pods", 0)}, Controls: []change.Control{gapAt("pods", time.Hour, false)}},
			nil, "stream pods: changes may be missing between resourceVersions 5 and 9: etcd was compacted"},
		{"that was two days ago", Stored{Positions: []change.Position{confirmed("pods", 0)},
			Controls: []change.Control{gapAt("pods", 48*time.Hour, false)}}, nil, ""},
		{"a proof differs", Stored{Positions: []change.Position{confirmed("pods", 0)},
			Controls: []change.Control{proofAt("pods", time.Minute, change.ProofDifferent)}}, nil,
			"stream pods: 1 of its objects in the log differ from the API server's at resourceVersion 9 (exporter verify names them)"},
		{"a newer proof does not", Stored{Positions: []change.Position{confirmed("pods", 0)},
			Controls: []change.Control{proofAt("pods", time.Minute, change.ProofDifferent), proofAt("pods", 0, change.ProofEqual)}}, nil, ""},
		{"a stream is paused", Stored{Positions: []change.Position{confirmed("pods", time.Hour)}, Signals: []checkpoint.Signal{
			{ID: 7, Kind: change.SignalPause, Stream: "pods", SignalAnswer: checkpoint.SignalAnswer{State: change.SignalPaused}}}}, nil,
			"stream pods: paused by signal 7"},
		{"the process says what is wrong with its stream", Stored{Positions: []change.Position{confirmed("pods", time.Hour)}},
			running(wrongStream("pods", "403")),
			"stream pods: 403"},
		{"the process has confirmed it since", Stored{Positions: []change.Position{confirmed("pods", time.Hour)}},
			watching(confirmed("pods", 0)), ""},
		{"the sink is down", Stored{}, running(wrong("sink", "no answer")), "sink: no answer"},
		{"a request names an object", Stored{}, running(wrong("start", `Get "https://k/x?fieldSelector=metadata.name%3Dhunter2&limit=1": EOF`)),
			`start: Get "https://k/x?fieldSelector=…&limit=1": EOF`},
		{"an error has selectors", Stored{}, running(
			wrong("sink", "write pods?labels=app=hunter2&fields=metadata.name!=hunter2: no leader"),
			wrongStream("pods?labels=app=hunter2&fields=metadata.name!=hunter2", "compare "+
				"pods?labels=app=hunter2&fields=metadata.name!=hunter2: "+
				`Get "https://k/x?fieldSelector=metadata.name%21%3Dhunter2&labelSelector=app%3Dhunter2&limit=1": EOF`)),
			"sink: write pods (by selectors): no leader\nstream pods (by selectors): compare pods (by selectors): " +
				`Get "https://k/x?fieldSelector=…&labelSelector=…&limit=1": EOF`},
		{"an object lacks its uid", Stored{}, running(wrong("start", `its metadata lacks name, uid or a numeric resourceVersion (name "hunter2", uid "")`)),
			`start: its metadata lacks name, uid or a numeric resourceVersion (name "…", uid "")`},
		{"an object can't be repaired", Stored{}, running(wrong("slot 0", `repair "shop/hunter2": commit batch 7 to "pg-1": EOF`)),
			`slot 0: repair "…": commit batch 7 to "pg-1": EOF`},
		{"a record is not the exporter's", Stored{}, running(
			wrong("sink", fmt.Sprintf("read topic %q: offset 7: decode record key %.80q: not a key of kubecdc's", "kubecdc.pods", `{"name":"hunter2"}`)),
			wrong("sink", fmt.Sprintf("%.40q is not in the wire format of a schema registry", "\x00hunter2"))),
			`sink: read topic "kubecdc.pods": offset 7: decode record key "…": not a key of kubecdc's` + "\n" +
				`sink: "…" is not in the wire format of a schema registry`},
	} {
		if c.stored.Owners == nil {
			c.stored.Owners = []checkpoint.SlotOwner{held}
		}
		s := Make(options, &c.stored, c.live)
		if got := problems(s); got != c.want || s.Healthy != (c.want == "") {
			t.Errorf("%s: healthy %v, wrong is %q, not %q", c.name, s.Healthy, got, c.want)
		}
	}
}

func TestASlotWithoutAnOwnerIsWrong(t *testing.T) {
	stored := &Stored{Owners: []checkpoint.SlotOwner{{Slot: 0, Owner: "a", Held: true, Selected: []change.StreamID{}},
		{Slot: 1, Selected: []change.StreamID{}}, {Slot: 2, Owner: "b"}}}
	want := "slot 1: nobody owns it, so its streams are not read\n" +
		"slot 2: nobody owns it, so its streams are not read: the lease of b has ended"
	if got := problems(Make(options, stored, nil)); got != want {
		t.Errorf("got %q", got)
	}
	process := &live.Snapshot{Slots: map[int]live.Slot{0: {}, 1: {}, 2: {Held: true, StreamsKnown: true}},
		Replica: ownership.Status{Owners: map[int]string{0: "a", 1: "c", 2: "b"}, Self: "b"}}
	s := Make(options, stored, process)
	if got := problems(s); got != "" || s.Slots[1].Owner != "c" || !s.Slots[2].Mine || s.Slots[1].Mine {
		t.Errorf("the process knows the owners: %q, %+v", got, s.Slots)
	}
}

// The checkpoint is left by a start that still waits for the sink.
func TestAnExportThatNeverBeganIsWrong(t *testing.T) {
	if s := Make(options, &Stored{}, nil); s.Healthy || !strings.Contains(problems(s), "nobody has ever owned one") {
		t.Errorf("healthy %v, wrong is %q", s.Healthy, problems(s))
	}
}

func TestStreamsWithAProblemComeFirst(t *testing.T) {
	stored := &Stored{Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true, Selected: []change.StreamID{}}}}
	for _, id := range []change.StreamID{"a", "b", "d"} {
		stored.Positions = append(stored.Positions, confirmed(id, 0))
	}
	stored.Positions = append(stored.Positions, confirmed("c", time.Hour))
	var got []string
	for _, s := range Make(options, stored, nil).Streams {
		got = append(got, s.Resource)
	}
	if strings.Join(got, "") != "cabd" {
		t.Errorf("the order is %v", got)
	}
}

// If the reader's or a replica's clock is two hours ahead, the status shows how far the log is behind.
func TestTheReadersClockMayBeWrong(t *testing.T) {
	const skew = 2 * time.Hour
	stored := &Stored{Ahead: skew, Owners: []checkpoint.SlotOwner{{Owner: "a", Held: true, Selected: []change.StreamID{}, Time: now.Add(-time.Minute)}},
		Positions: []change.Position{confirmed("nodes", time.Minute), confirmed("pods", 0)},
		Controls:  []change.Control{gapAt("nodes", time.Hour, true)}}
	own := confirmed("pods", 3*time.Minute)
	own.Time = own.Time.Add(skew)
	wrong := options
	wrong.Now = now.Add(skew)
	for name, c := range map[string]struct {
		live *live.Snapshot
		pods time.Duration
	}{"the command": {nil, 0}, "a replica": {watching(own), 3 * time.Minute}} {
		s := Make(wrong, stored, c.live)
		nodes, pods := s.Streams[0], s.Streams[1]
		if got := *nodes.LagSeconds; got != 60 || !s.Healthy {
			t.Errorf("%s: nodes are %v s behind, %q", name, got, problems(s))
		}
		if got := *pods.LagSeconds; got != c.pods.Seconds() {
			t.Errorf("%s: pods are %v s behind", name, got)
		}
		if since := s.Time.Sub(nodes.Gap.Time); since != time.Hour {
			t.Errorf("%s: the gap was %s ago", name, since)
		}
		if since := s.Time.Sub(s.Slots[0].Checkpoint); since != time.Minute {
			t.Errorf("%s: the last checkpoint was %s ago", name, since)
		}
	}
}

// clocked is a checkpoint whose server has another clock.
type clocked struct {
	checkpoint.Overview
	behind time.Duration
}

func (c clocked) Streams(context.Context) ([]change.Position, error)         { return nil, nil }
func (c clocked) SlotOwners(context.Context) ([]checkpoint.SlotOwner, error) { return nil, nil }
func (c clocked) LastControls(context.Context) ([]change.Control, error)     { return nil, nil }
func (c clocked) Signals(context.Context, bool) ([]checkpoint.Signal, error) { return nil, nil }
func (c clocked) Clock(context.Context) (time.Time, error)                   { return time.Now().Add(-c.behind), nil }

func TestASlowAnswerIsNoWrongClock(t *testing.T) {
	for behind, want := range map[time.Duration]time.Duration{2 * time.Second: 0, time.Hour: time.Hour, -time.Hour: -time.Hour} {
		if s, err := Read(t.Context(), clocked{behind: behind}); err != nil || s.Ahead != want {
			t.Errorf("a clock that is %s behind: %s, %v", behind, s.Ahead, err)
		}
	}
}

func TestAnErrorDoesNotControlTheTerminal(t *testing.T) {
	process := running(wrong("sink", "a proxy answers:\n\x1b]0;owned\a\tnö"))
	var table strings.Builder
	Make(options, nil, process).WriteTable(&table)
	if want := `✕ sink: a proxy answers: \u001b]0;owned\u0007\tnö (for 0 s)` + "\n"; !strings.Contains(table.String(), want) {
		t.Errorf("it is written as %q", table.String())
	}
}
