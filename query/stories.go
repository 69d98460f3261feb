package query

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// stories reads the control records about some resources.
type stories struct {
	resources []string // empty: all
	target    Target
	cut       *sinks.Cut // of a target that is a point of the log; else nil
	kept      map[string]sinks.Retained
	pulses    map[int]pulses // of each slot
	current   map[int]*current
	ends      time.Time // when the last batch was logged
	streams   map[change.StreamID]*story
	read      point  // all that was read
	here      *point // a copy of it; nil: not made since the last batch
	steps     []step
}

// current is the streams of a slot that its owner has read as their changes happened, as it said last.
type current struct {
	epoch   int64
	streams []change.StreamID
	upTo    time.Time // of the batch that is being read; zero: it does not say
}

// step is a batch that was logged at an earlier time than one before it: a clock stepped back, or another slot's differs.
type step struct {
	n      int
	logged time.Time
}

func newStories(resources []string, kept map[string]sinks.Retained, target Target, cut *sinks.Cut) *stories {
	return &stories{resources: resources, target: target, cut: cut, kept: kept, pulses: map[int]pulses{}, current: map[int]*current{},
		streams: map[change.StreamID]*story{}, read: point{last: map[int]uint64{}}}
}

func readStories(
	ctx context.Context, r sinks.Reader, resources []string, kept map[string]sinks.Retained, target Target, cut *sinks.Cut,
) (*stories, error) {
	s := newStories(resources, kept, target, cut)
	if err := r.Controls(ctx, time.Time{}, s.matters, s.control); err != nil {
		return nil, err
	}
	for _, id := range resources {
		_, found := s.kept[id]
		for stream := range s.streams {
			found = found || change.ResourceOf(stream).ID() == id
		}
		if !found {
			known, err := r.Resources(ctx)
			if err != nil {
				return nil, err
			}
			return nil, fault.Usagef("the log has no changes of %s: it has %s", id, strings.Join(known, ", "))
		}
	}
	return s, nil
}

// before is the point before the batch of a control record.
func (s *stories) before(c *change.Control) *point {
	last := max(c.Batch, 1) - 1
	if s.here == nil || s.here.last[c.Slot] != last {
		s.here = &point{s.read.n, maps.Clone(s.read.last), time.UnixMilli(c.TimeMs)}
		s.here.last[c.Slot] = last
	}
	return s.here
}

// ended notes the end of a batch.
func (s *stories) ended(c *change.Control) {
	logged := time.UnixMilli(c.TimeMs)
	if logged.Before(s.ends) {
		for n := len(s.steps); n > 0 && !s.steps[n-1].logged.Before(logged); n-- {
			s.steps = s.steps[:n-1]
		}
		s.steps = append(s.steps, step{s.read.n, logged})
	} else {
		s.ends = logged
	}
	s.read.last[c.Slot] = c.Batch
	s.read.n++
	s.here = nil
}

// timeBefore is a time by which the log had neither the batch of a mark nor one after it, whatever the clocks did.
func (s *stories) timeBefore(m Mark) time.Time {
	t := m.Logged
	if i := slices.IndexFunc(s.steps, func(x step) bool { return x.n > m.n }); i >= 0 && s.steps[i].logged.Before(t) {
		t = s.steps[i].logged
	}
	return t.Add(-time.Millisecond)
}

// matters reports whether the target is near a span of batches, or a stream in it has its first position, or one that ends a gap.
// Elsewhere a stream's last position in half a minute tells as much as all of them.
func (s *stories) matters(span *sinks.Span) bool {
	t := s.target
	switch {
	case !t.Happened.IsZero() && !t.Happened.After(time.UnixMilli(span.TimeMs).Add(around)) && !t.Happened.Before(span.Earliest.Add(-around)):
		return true
	case s.cut != nil && span.First <= s.cut.Batches[span.Slot] && s.cut.Batches[span.Slot] < span.Batch:
		return true
	}
	return slices.ContainsFunc(span.Positions, func(p change.Position) bool {
		if !s.selects(change.ResourceOf(p.Stream).ID()) {
			return false
		}
		st := s.streams[p.Stream]
		return st == nil || st.era().start() == "" || st.isOpen() ||
			t.Version != "" && p.ResourceVersion.Compare(t.Version) > 0 && st.last.Version.Compare(t.Version) <= 0
	})
}

func (s *stories) selects(resource string) bool {
	return len(s.resources) == 0 || slices.Contains(s.resources, resource)
}

func (s *stories) control(c *change.Control) error {
	switch {
	case c.Type == change.ControlBatch:
		for _, p := range c.Positions {
			s.pulse(c.Slot, p.Time, p.Time)
			s.position(p, c)
		}
		s.confirm(c)
		s.ended(c)
		return nil
	case c.Type == change.ControlCurrent:
		s.isCurrent(c)
		return nil
	case c.Stream == "" || !s.selects(change.ResourceOf(c.Stream).ID()):
		return nil
	}
	st := s.stream(c.Stream)
	switch c.Type {
	case change.ControlSnapshotBegin:
		st.begin(s.before(c))
	case change.ControlSnapshotEnd:
		if e := st.era(); e.listed == "" {
			e.listed = c.ResourceVersion
		}
	case change.ControlGap:
		if c.Gap == nil {
			break
		}
		if st.delays.gap(c.Gap.To); !c.Gap.Complete {
			st.gap(c)
		}
	case change.ControlBehind:
		st.late = time.UnixMilli(c.SinceMs)
		st.delays.late(span{st.late, time.UnixMilli(c.TimeMs + 1)})
	case change.ControlStreamPaused, change.ControlStreamResumed, change.ControlStreamReselected, change.ControlStreamEnd,
		change.ControlStreamError, change.ControlStreamRecovered:
		st.delays.stopped = true
	}
	return nil
}

// position notes a position. A stream that moved to another slot goes on there.
func (s *stories) position(p change.Position, c *change.Control) {
	if !s.selects(change.ResourceOf(p.Stream).ID()) || p.ResourceVersion == change.UnknownVersion {
		return
	}
	st, m := s.stream(p.Stream), Mark{p.ResourceVersion, p.Time, p.Time, time.UnixMilli(c.TimeMs), c.Slot, c.Batch, s.before(c)}
	if !st.late.IsZero() {
		m.current, st.late = st.late, time.Time{}
	}
	if p.Ended == change.EndedRemoved {
		st.era().removed = p.Time
		st.delays.add(span{st.last.Time, p.Time})
	}
	if st.gone = p.Ended != ""; p.ResourceVersion == "" {
		return
	}
	s.mark(st, m, c.Epoch)
}

// isCurrent notes which streams a slot's owner has read as their changes happened.
func (s *stories) isCurrent(c *change.Control) {
	known := s.current[c.Slot]
	if len(c.Streams) > 0 {
		known = &current{epoch: c.Epoch, streams: c.Streams}
		s.current[c.Slot] = known
	}
	s.pulse(c.Slot, time.UnixMilli(c.SinceMs), time.UnixMilli(c.TimeMs))
	if known != nil && known.epoch == c.Epoch {
		known.upTo = time.UnixMilli(c.TimeMs)
	}
}

// confirm marks the last positions of the streams that are known to be current with a batch.
func (s *stories) confirm(c *change.Control) {
	known := s.current[c.Slot]
	if known == nil || known.upTo.IsZero() {
		return
	}
	for _, id := range known.streams {
		st := s.streams[id]
		// A record may come after the beginning of another era, and be of the time before.
		if st == nil || st.gone || st.era().first.Version == "" || st.last.slot != c.Slot || !st.last.Time.Before(known.upTo) {
			continue
		}
		m := st.last
		m.Time, m.current, m.Logged, m.batch, m.point = known.upTo, known.upTo, time.UnixMilli(c.TimeMs), c.Batch, s.before(c)
		s.mark(st, m, c.Epoch)
	}
	known.upTo = time.Time{}
}

// mark adds a mark to what is known of a stream.
func (s *stories) mark(st *story, m Mark, epoch int64) {
	resource := change.ResourceOf(st.stream).ID()
	st.delays.mark(m, epoch)
	st.mark(m)
	if !m.Logged.After(s.kept[resource].Since) {
		st.kept = m
	}
	if s.reached(m) {
		st.at = m
	}
	switch {
	case !s.beyond(m) && st.beyond.Version == "":
		if m.Version != st.base.Version {
			st.held = m
		}
		st.base = m
	case s.beyond(m) && st.beyond.Version == "":
		st.beyond = m
	}
}

// reached reports whether a position is from before the target, or of it.
func (s *stories) reached(m Mark) bool {
	if s.cut == nil {
		return s.target == Target{} || !s.target.Happened.IsZero() && !m.Time.After(s.target.Happened)
	}
	if last, known := s.cut.Batches[m.slot]; known {
		return m.batch <= last
	}
	return s.target == Target{} || !m.Logged.After(s.target.Logged)
}

// beyond reports whether a position is after the target's version, or its time.
func (s *stories) beyond(m Mark) bool {
	return s.target.Version != "" && m.Version.Compare(s.target.Version) > 0 ||
		!s.target.Happened.IsZero() && m.Time.After(s.target.Happened)
}

func (s *stories) stream(id change.StreamID) *story {
	if s.streams[id] == nil {
		s.streams[id] = &story{stream: id}
	}
	return s.streams[id]
}

// nothing says that the log has no stream that could answer: that it has no objects proves nothing.
func (s *stories) nothing(namespace string) string {
	resources := "any resource"
	if len(s.resources) > 0 {
		resources = strings.Join(s.resources, ", ")
	}
	if len(s.streams) == 0 && len(s.kept) > 0 { // a copy of a part of a log
		return "the log has no control record of " + resources + ", so nothing says from where on its changes are complete"
	}
	text := "the log has no stream of " + resources
	if namespace != "" {
		text += " in namespace " + namespace
	}
	return text + ": they were not exported"
}
