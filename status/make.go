package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/internal/plain"
)

// recent is how long an incomplete gap counts as a problem.
const recent = 24 * time.Hour

// Options is the context of a Status.
type Options struct {
	Cluster string
	Now     time.Time
	// StaleAfter is how old a stream's confirmed position may be. If it is older, the stream has a problem.
	StaleAfter time.Duration
	Version    string            // the process's version
	Addresses  map[string]string // servers' addresses, by dependency
	SinkPage   string            // the page about the sink's failures
}

// StaleAfter returns how old a stream's confirmed position may be, for an interval between watermarks.
func StaleAfter(watermarks time.Duration) time.Duration { return 4*time.Minute + watermarks }

// Stored is the content of the checkpoint.
type Stored struct {
	Positions []change.Position
	Owners    []checkpoint.SlotOwner
	Controls  []change.Control
	Signals   []checkpoint.Signal // open ones
	Log       *change.LogSize     // nil: not known
	Ahead     time.Duration       // how far the reader's clock is ahead of the store's
}

// leastSkew is the smallest difference between clocks that is not just a slow answer.
const leastSkew = 5 * time.Second

// Read reads the content of the checkpoint, without the size of the log.
func Read(ctx context.Context, c checkpoint.Overview) (*Stored, error) {
	var s Stored
	var err error
	if s.Positions, err = c.Streams(ctx); err != nil {
		return nil, err
	}
	if s.Owners, err = c.SlotOwners(ctx); err != nil {
		return nil, err
	}
	if s.Controls, err = c.LastControls(ctx); err != nil {
		return nil, err
	}
	if s.Signals, err = c.Signals(ctx, true); err != nil {
		return nil, err
	}
	clock, err := c.Clock(ctx)
	if ahead := time.Since(clock).Round(time.Second); ahead.Abs() >= leastSkew {
		s.Ahead = ahead
	}
	return &s, err
}

// Make returns the Status of a checkpoint and a process, either of which may be nil. Its times are on the process's clock, or
// without a process on the clock of the checkpoint's store. The reader's clock may be wrong.
func Make(o Options, stored *Stored, process *live.Snapshot) *Status {
	if stored != nil && process == nil {
		o.Now = o.Now.Add(-stored.Ahead)
	}
	m := &maker{Options: o, streams: map[change.StreamID]*Stream{}, reported: map[change.StreamID]bool{}}
	m.status = &Status{Cluster: o.Cluster, Time: o.Now.UTC(), Problems: []Problem{}, Slots: []Slot{}, Streams: []Stream{}}
	if stored != nil {
		if process != nil {
			m.ahead = stored.Ahead
		}
		m.addStored(stored)
	}
	if process != nil {
		m.addProcess(process)
	}
	m.judge()
	return m.status
}

type maker struct {
	Options
	status   *Status
	streams  map[change.StreamID]*Stream
	reported map[change.StreamID]bool // the process reports the stream
	ahead    time.Duration            // to add to times in the checkpoint
}

// localTime converts a time in the checkpoint to the status's clock.
func (m *maker) localTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(m.ahead)
}

func (m *maker) stream(id change.StreamID) *Stream {
	s := m.streams[id]
	if s == nil {
		parsed := change.ParseStream(id)
		s = &Stream{id: id, Resource: parsed.Resource.ID(), Namespace: parsed.Namespace,
			Selectors: parsed.LabelSelector+parsed.FieldSelector != "",
			State:     change.StateListing}
		m.streams[id] = s
	}
	return s
}

func (m *maker) addStored(stored *Stored) {
	m.status.Log = stored.Log
	for _, p := range stored.Positions {
		if p.Stream.IsSnapshot() {
			continue
		}
		s := m.stream(p.Stream)
		p.Time = m.localTime(p.Time)
		m.confirm(s, p)
		switch {
		case p.Ended != "":
			s.State = change.StateDeselected
		case p.ResourceVersion != "":
			s.State = change.StateFollowed
		}
	}
	for _, c := range stored.Controls {
		if s := m.streams[c.Stream]; s != nil {
			c.TimeMs += m.ahead.Milliseconds()
			s.show(&c)
		}
	}
	for _, g := range stored.Signals {
		if s := m.streams[g.Stream]; s != nil && g.Kind == change.SignalPause && g.State == change.SignalPaused {
			s.State, s.StateSince = change.StatePaused, m.localTime(g.Answered)
			m.blame(s, live.Problem{Text: fmt.Sprintf("paused by signal %d", g.ID), Cause: "paused by a signal",
				Code: string(s.State), Since: s.StateSince})
		}
	}
	for _, o := range stored.Owners {
		m.status.Slots = append(m.status.Slots, Slot{Number: o.Slot, Owner: o.Owner, Held: o.Held,
			Epoch: o.Epoch, Batch: o.Seq, Checkpoint: m.localTime(o.Time), unrecorded: o.Selected == nil})
		for _, id := range o.Selected {
			m.stream(id)
		}
	}
}

func (m *maker) confirm(s *Stream, p change.Position) {
	if p.ResourceVersion == "" || p.Time.Before(s.Confirmed) {
		return
	}
	s.Position, s.Confirmed = p.ResourceVersion, p.Time.UTC()
}

func (m *maker) addProcess(p *live.Snapshot) {
	report := ReportOf(p)
	m.status.Process = &Process{Name: p.Replica.Self, Version: m.Version, Started: p.Started, Ready: report.Ready,
		Standby:  report.Standby,
		Replicas: p.Replica.Replicas}
	for _, name := range slices.Sorted(maps.Keys(p.Servers)) {
		v := p.Servers[name]
		m.status.Servers = append(m.status.Servers,
			Server{Name: name, Address: m.Addresses[name], Up: v.Up, Since: v.Since.UTC()})
	}
	for id, v := range p.Streams {
		if v.Added {
			m.addStream(m.stream(id), &v, p.Slots[v.Slot].Fill.Spool != (live.Spool{}))
		}
	}
	for _, p := range report.Problems {
		if p.Problem.Problem = m.hidden(p.Problem.Problem, p.Stream); p.Stream != "" {
			m.blame(m.stream(p.Stream), p.Problem.Problem)
			continue
		}
		m.status.Problems = append(m.status.Problems, p.Problem)
	}
	m.addPast(p.Past)
	for n := len(m.status.Slots); n < len(p.Slots); n++ {
		m.status.Slots = append(m.status.Slots, Slot{Number: n})
	}
	for i := range m.status.Slots {
		s := &m.status.Slots[i]
		if owner, ok := p.Replica.Owners[s.Number]; ok {
			s.Owner, s.Held = owner, true
		}
		if p.Slots[s.Number].Held {
			s.Held, s.Mine = true, true
		}
	}
}

// addStream adds what the process reports about a stream. It is newer than the checkpoint.
func (m *maker) addStream(s *Stream, v *live.Stream, spooling bool) {
	if spooling {
		s.Delivered = s.Position
	}
	if v.Position.ResourceVersion != "" {
		s.Confirmed = time.Time{} // the process's time, on its clock, replaces it
	}
	m.confirm(s, v.Position)
	s.State, s.StateSince, s.Rate, m.reported[s.id] = v.State, v.Since.UTC(), &v.Rate, true
	s.Problem, s.Since = "", time.Time{}
	for _, c := range v.Controls {
		s.show(&c)
	}
}

func (m *maker) hidden(p live.Problem, stream change.StreamID) live.Problem {
	p.Text, p.Cause, p.Since = m.hide(p.Text, stream), m.hide(p.Cause, stream), p.Since.UTC()
	return p
}

// hide hides the selectors of streams, and the names of objects, in an error. stream is the stream of the error, or "".
func (m *maker) hide(text string, stream change.StreamID) string {
	text = hideSelectors(text, stream)
	if strings.Contains(text, "?labels=") || strings.Contains(text, "?fields=") {
		longestFirst := func(a, b change.StreamID) int { return len(b) - len(a) } // one id may begin with another
		for _, id := range slices.SortedFunc(maps.Keys(m.streams), longestFirst) {
			text = hideSelectors(text, id)
		}
	}
	return plain.HideNames(text)
}

func (m *maker) judge() {
	named := map[string]bool{}
	for _, p := range m.status.Problems {
		named[p.Component] = true
	}
	if len(m.status.Slots) == 0 && m.status.Process == nil {
		m.status.Problems = append(m.status.Problems, Problem{Component: "slots", Problem: live.Problem{
			Text: "nobody has ever owned one, so nothing is exported: /readyz and the log of exporter run say what its start " +
				"waits for"}})
	}
	for i := range m.status.Slots {
		s := &m.status.Slots[i]
		if p := m.slotProblem(s); p != nil && !named[p.Component] {
			m.status.Problems = append(m.status.Problems, *p)
		}
	}
	for _, s := range m.streams {
		m.judgeStream(s)
		m.status.Streams = append(m.status.Streams, *s)
	}
	slices.SortFunc(m.status.Streams, func(a, b Stream) int {
		return cmp.Or(order(a.Problem == "", b.Problem == ""), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.id, b.id))
	})
	m.addStreamProblems()
	sortProblems(m.status.Problems)
	for i := range m.status.Problems {
		m.advise(&m.status.Problems[i])
	}
	m.status.Healthy = len(m.status.Problems) == 0
}

func order(a, b bool) int {
	if a == b {
		return 0
	}
	if a {
		return 1
	}
	return -1
}

func (m *maker) slotProblem(s *Slot) *Problem {
	p := &Problem{Component: fmt.Sprintf("slot %d", s.Number)}
	p.Text, p.Code = "nobody owns it, so its streams are not read", withoutOwner
	switch {
	case s.Held && (!s.unrecorded || s.Mine):
		return nil
	case s.Held:
		p.Code = unrecorded
		p.Text = "the checkpoint does not say which streams it has: " + s.Owner +
			" has not come so far, or is of an earlier release"
	case s.Owner != "":
		p.Text += ": the lease of " + s.Owner + " has ended"
	}
	return p
}

func (m *maker) judgeStream(s *Stream) {
	if n := len(m.status.Slots); n > 0 {
		s.Slot = change.SlotOf(s.id, n)
		m.status.Slots[s.Slot].Streams++
	}
	if !s.Confirmed.IsZero() {
		lag := max(m.Now.Sub(s.Confirmed).Seconds(), 0)
		s.LagSeconds = &lag
	}
	switch gap := s.Gap; {
	case s.Problem != "" || s.State == change.StateDeselected:
	case s.Proof != nil && s.Proof.Result == change.ProofDifferent:
		m.blame(s, live.Problem{Text: fmt.Sprintf("%d of its objects in the log differ from the API server's at "+
			"resourceVersion %s "+
			"(exporter verify names them)", s.Proof.Differences, s.Proof.At), Cause: live.Differs, Code: live.Differs,
			Since: s.Proof.Time})
	case s.Position == "" && !m.reported[s.id]:
		m.blame(s, live.Problem{Text: "its first list is not complete"})
	case s.Position != "" && m.Now.Sub(s.Confirmed) > m.StaleAfter:
		m.blame(s, live.Problem{Text: "not confirmed to be complete beyond resourceVersion " + string(s.Position),
			Cause: "not confirmed to be complete", Code: notConfirmed, Since: s.Confirmed})
	case gap != nil && !gap.Complete && m.Now.Sub(gap.Time) < recent:
		m.blame(s, live.Problem{Text: fmt.Sprintf("changes may be missing between resourceVersions %s and %s: %s", gap.From,
			gap.To, gap.Reason),
			Cause: "changes may be missing: " + gap.Reason, Code: incompleteGap, Since: gap.Time})
	}
}

func (m *maker) blame(s *Stream, p live.Problem) {
	p.Since = p.Since.UTC()
	s.Problem, s.Since, s.wrong = p.Text, p.Since, p
}
