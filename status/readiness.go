package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
)

// Report is the answer of /readyz.
//
// The process is ready if it holds a slot and knows the streams of its slots. Each stream must have had its first position or an
// error. While streams still get their first positions, an error that may pass does not count, since the other streams wait for
// such a stream, too. No component except the selection may have a problem. A stream's or another slot's error does not make it
// unready, since the other streams and slots go on. Both are listed. A stream that was ready once remains ready, also during a
// relist. A replica on standby is ready.
type Report struct {
	Ready    bool       `json:"ready"`
	Standby  string     `json:"standby,omitempty"` // why this replica intentionally holds no slot
	Slots    Count      `json:"slots"`
	Streams  Count      `json:"streams"`
	Problems []Reported `json:"wrong"` // problems that block readiness come first
}

// Count is how many of all are in order.
type Count struct {
	OK  int `json:"ok"`
	All int `json:"all"`
}

// Reported is a problem of one component, and whether it blocks readiness.
type Reported struct {
	Problem
	Blocks bool `json:"blocks_ready"`
}

// ReportOf returns whether the process is ready, and all problems.
func ReportOf(s *live.Snapshot) Report {
	r := Report{Problems: []Reported{}, Standby: s.Replica.Standby}
	r.addSlots(s)
	r.addComponents(s)
	r.addStreams(s)
	r.Ready = !slices.ContainsFunc(r.Problems, func(p Reported) bool { return p.Blocks })
	slices.SortStableFunc(r.Problems, func(a, b Reported) int { return cmp.Compare(rank(a), rank(b)) })
	return r
}

// Short returns the report with the streams' problems grouped by cause.
func (r Report) Short() Report {
	var groups [2]byCause // by rank
	for _, p := range r.Problems {
		groups[rank(p)].add(p.Problem)
	}
	r.Problems = []Reported{}
	for i, group := range groups {
		for _, p := range group {
			r.Problems = append(r.Problems, Reported{*p, i == 0})
		}
	}
	return r
}

func rank(p Reported) int {
	if p.Blocks {
		return 0
	}
	return 1
}

func (r *Report) addSlots(s *live.Snapshot) {
	for _, v := range s.Slots {
		if v.Held {
			r.Slots.OK++
		}
	}
	r.Slots.All = len(s.Slots)
	for _, number := range slices.Sorted(maps.Keys(s.Slots)) {
		v, owner := s.Slots[number], s.Replica.Owners[number]
		p := Reported{Problem{Component: fmt.Sprintf("slot %d", number)}, r.Slots.OK == 0 && r.Standby == ""}
		switch {
		case v.Problem != nil:
			slot := p.Component + ": "
			if p.Problem.Problem = *v.Problem; v.Server != "" {
				p.Component, p.Text, p.Cause = v.Server, slot+p.Text, slot+p.Cause
			}
		case v.Held && v.StreamsKnown && v.Fill.Spool != (live.Spool{}):
			p.Text, p.Code, p.Since, p.Blocks = spooling(&v.Fill.Spool, s.Time), spools, v.Fill.Spool.Since, v.Fill.Spool.Full
			if v.Fill.Spool.Why != "" {
				p.Component, p.Text = dependency.Sink, p.Component+": "+p.Text
			}
		case v.Held && v.StreamsKnown:
			continue
		case v.Held:
			p.Text, p.Blocks = "its streams are not known yet", true
		case v.Delay != "":
			p.Text = v.Delay
		case owner == "" || owner == s.Replica.Self:
			p.Text = "not held yet"
		case !p.Blocks:
			continue // another replica works on it
		default:
			p.Text = "held by " + owner
		}
		r.Problems = append(r.Problems, p)
	}
}

// spooling returns the content of a slot's spool in words.
func spooling(s *live.Spool, now time.Time) string {
	text := "the sink does not take batches: "
	if s.Why == "" {
		text = "the sink takes what it missed: "
	}
	if s.Full {
		text += "nothing is read, since the spool is full; "
	}
	text = fmt.Sprintf("%sspooling, %s, %d batches, %d%% full", text, now.Sub(s.Oldest).Truncate(time.Second),
		s.Batches, 100*s.Bytes/max(s.MaxBytes, 1))
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

// isSpooling reports whether the process can go on without the sink: each held slot has a spool with room.
func isSpooling(s *live.Snapshot) bool {
	held, spooling := 0, 0
	for _, v := range s.Slots {
		if v.Held {
			held++
			if v.Fill.Spool != (live.Spool{}) && !v.Fill.Spool.Full {
				spooling++
			}
		}
	}
	return held > 0 && held == spooling
}

func (r *Report) addComponents(s *live.Snapshot) {
	spooling := isSpooling(s)
	for _, problems := range []map[string]*live.Problem{s.Problems, s.Stalls} {
		for _, name := range slices.Sorted(maps.Keys(problems)) {
			p := problems[name]
			r.Problems = append(r.Problems, Reported{Problem{Component: name, Problem: *p},
				name != live.Selection && !(name == dependency.Sink && spooling)})
		}
	}
}

// addStreams adds the streams of the sessions, and the streams for which it is unknown whether their resource was removed.
func (r *Report) addStreams(s *live.Snapshot) {
	begins := beginning(s)
	for _, id := range slices.Sorted(maps.Keys(s.Streams)) {
		v := s.Streams[id]
		if !v.Added && v.RemovalUnknown == nil {
			continue
		}
		r.Streams.All++
		add := func(p *live.Problem, blocks bool) {
			r.Problems = append(r.Problems, Reported{Problem{Component: "stream " + string(id), Problem: *p, Stream: id}, blocks})
		}
		if v.RemovalUnknown != nil {
			add(v.RemovalUnknown, false)
		}
		switch {
		case !v.Added:
		case v.Problem != nil:
			add(v.Problem, begins && waits(&v))
		case v.Recovering != nil:
			add(v.Recovering, !v.Settled)
		case !v.Settled:
			add(&live.Problem{Text: "no position yet: " + string(v.State), Since: v.Since}, true)
		case v.Differs != nil:
			add(v.Differs, false)
		case v.RemovalUnknown == nil:
			r.Streams.OK++
		}
	}
}

// stillBeginning is how long after a first position others are waited for.
const stillBeginning = time.Minute

// beginning reports whether several streams have yet to get their first positions, and others have just got theirs. A stream that
// waits alone may do so for ever, as one of a collection on which the API server hangs.
func beginning(s *live.Snapshot) bool {
	waiting := 0
	for _, v := range s.Streams {
		if waits(&v) {
			waiting++
		}
	}
	return waiting > 1 && s.Time.Sub(s.Positioned) < stillBeginning
}

// waits reports whether a stream has yet to get its first position, and nothing but time is in its way.
func waits(v *live.Stream) bool {
	return v.Added && !v.Positioned && !v.Refused && v.State != change.StatePaused
}
