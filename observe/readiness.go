package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/status"
)

// Report is the answer of /readyz.
//
// The process is ready if it holds a slot, knows the streams of its slots, no component but the selection has a problem, and every stream has had
// its first position or an error. Neither a stream's error nor another slot's makes the process unready, because the other
// streams and slots continue; both are listed. A stream that was ready once stays so, also during a relist. A replica on
// standby is ready.
type Report struct {
	Ready    bool      `json:"ready"`
	Standby  string    `json:"standby,omitempty"` // why this replica holds no slot, if that is as intended
	Slots    Count     `json:"slots"`
	Streams  Count     `json:"streams"`
	Problems []Problem `json:"wrong"` // those that block readiness first
}

// Count says how many of all are in order.
type Count struct {
	OK  int `json:"ok"`
	All int `json:"all"`
}

// Problem is a problem of one component, and whether the process is ready with it.
type Problem struct {
	status.Problem
	Blocks bool `json:"blocks_ready"`
}

// Report returns whether the process is ready, and all problems.
func (h *Health) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Report{Problems: []Problem{}, Standby: h.standby}
	h.reportSlots(&r)
	h.reportComponents(&r)
	h.reportStreams(&r)
	r.Ready = !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Blocks })
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(rank(a), rank(b)) })
	return r
}

// selectionComponent has what is selected and not there. What is there is exported meanwhile.
const selectionComponent = "selection"

// streamComponent begins the component of a stream's problems.
const streamComponent = "stream "

func rank(p Problem) int {
	if p.Blocks {
		return 0
	}
	return 1
}

func (h *Health) reportSlots(r *Report) {
	for _, s := range h.slots {
		if s.held {
			r.Slots.OK++
		}
	}
	r.Slots.All = len(h.slots)
	for _, number := range slices.Sorted(maps.Keys(h.slots)) {
		s := h.slots[number]
		p := Problem{status.Problem{Component: fmt.Sprintf("slot %d", number)}, r.Slots.OK == 0 && h.standby == ""}
		switch {
		case s.err != nil:
			p.Text, p.Since = s.err.text, s.err.since
			if s.dependency != "" {
				p.Component, p.Text = s.dependency, p.Component+": "+p.Text
			}
		case s.held && s.streamsKnown:
			continue
		case s.held:
			p.Text, p.Blocks = "its streams are not known yet", true
		case s.activity != "":
			p.Text = s.activity
		case s.owner == "":
			p.Text = "not held yet"
		case !p.Blocks:
			continue // another replica works on it
		default:
			p.Text = "held by " + s.owner
		}
		r.Problems = append(r.Problems, p)
	}
}

func (h *Health) reportComponents(r *Report) {
	for _, problems := range []map[string]*problem{h.problems, h.stalls} {
		for _, name := range slices.Sorted(maps.Keys(problems)) {
			p := problems[name]
			r.Problems = append(r.Problems, Problem{status.Problem{Component: name, Text: p.text, Since: p.since}, name != selectionComponent})
		}
	}
}

func (h *Health) reportStreams(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(h.streams)) {
		s := h.streams[id]
		r.Streams.All++
		add := func(text string, since time.Time, blocks bool) {
			p := status.Problem{Component: streamComponent + string(id), Text: text, Since: since, Stream: id}
			r.Problems = append(r.Problems, Problem{p, blocks})
		}
		if s.removalUnknown != nil {
			add(s.removalUnknown.text, s.removalUnknown.since, false)
		}
		switch {
		case s.err != nil:
			add(s.err.text, s.err.since, false)
		case s.recovering != "":
			add(s.recovering, s.since, !s.settled)
		case !s.settled:
			add("no position yet: "+string(s.state), s.since, true)
		case s.proof != nil:
			add(s.proof.text, s.proof.since, false)
		case s.removalUnknown == nil:
			r.Streams.OK++
		}
	}
}
