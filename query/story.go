package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Mark is a position of a stream.
type Mark struct {
	Version change.ResourceVersion
	Time    time.Time // of the event, bookmark or list that confirmed it
	current time.Time // when nothing was newer: that, or before it if the stream was read late
	Logged  time.Time
	slot    int
	batch   uint64
	*point  // before its batch
}

// story is what the control records tell of one stream.
type story struct {
	stream change.StreamID
	eras   []*era
	gaps   []gap // that were not recovered whole
	delays delays
	late   time.Time // since when this batch has it late; zero: it does not
	gone   bool      // it has ended
	last   Mark
	kept   Mark // the last one before everything that was logged is kept
	at     Mark // the last one by the target
	beyond Mark // the first one after the target's version, or its time
	base   Mark // the last one before that
	held   Mark // the first one of base's version. A deletion of Events is logged before a position has its version: perhaps more follow
	back   Mark // the last one that is older than the one before: the server's history went back
}

// era is the time from one first list to the next: that of a stream that was forgotten, or of a resource that was removed and is
// back. A first list has all objects; nothing tells what became of those that only the era before had.
type era struct {
	begin       *point
	listed      change.ResourceVersion // of the end of the first list; empty: the record is not kept
	first, last Mark
	removed     time.Time // when the log was told that the resource is gone; zero: it is not
}

// start is the version from which on the era has every change.
func (e *era) start() change.ResourceVersion {
	if e.listed != "" {
		return e.listed
	}
	return e.first.Version
}

// point is a place in the log: that before a batch. Control records come in the order of the log, so no clock decides what is before a
// point: clocks step back, and those of two slots differ.
type point struct {
	n      int            // how many batches were read before it
	last   map[int]uint64 // the last one of each slot
	logged time.Time      // when the batch was
}

// has reports whether a change was logged before the point. Its time tells that only where no batch record of its slot from before the point
// is retained.
func (p *point) has(l *sinks.Logged) bool {
	if p == nil {
		return false
	}
	if last, known := p.last[l.Slot]; known && l.Batch != 0 {
		return l.Batch <= last
	}
	return l.Logged.Before(p.logged)
}

// gap is one that was not recovered whole. What it lacks happened after since. One of an unknown beginning, as of a loss, is open
// until the stream has a position again: that of the list which found out what the log has.
type gap struct {
	change.Gap
	since time.Time
	until time.Time // when the log was told of it
	open  bool
}

// passes reports whether the gap ends after a version.
func (g *gap) passes(version change.ResourceVersion) bool { return g.open || g.To.Compare(version) > 0 }

// gap notes a gap that was not recovered whole.
func (st *story) gap(c *change.Control) {
	g := gap{Gap: *c.Gap, since: st.last.Time, until: time.UnixMilli(c.TimeMs)}
	if g.Lost() {
		g.open, g.since = true, time.Time{}
	}
	st.gaps = append(st.gaps, g)
}

// isOpen reports whether a gap is open: then a list shows only what the log lacks.
func (st *story) isOpen() bool {
	return slices.ContainsFunc(st.gaps, func(g gap) bool { return g.open })
}

// close ends the gaps that are open at the next position.
func (st *story) close(m Mark) {
	for i := range st.gaps {
		if g := &st.gaps[i]; g.open {
			if g.open = false; g.To.Compare(m.Version) < 0 {
				g.To = m.Version
			}
		}
	}
}

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

// resolve finds out when the batch of a target was logged.
func resolve(ctx context.Context, r sinks.Reader, t Target) (Target, error) {
	if t.Batch == nil {
		return t, nil
	}
	var at Target
	has := func(span *sinks.Span) bool {
		return span.Slot == t.Batch.Slot && span.First <= t.Batch.Number && t.Batch.Number <= span.Batch
	}
	err := r.Controls(ctx, time.Time{}, has, func(c *change.Control) error {
		if c.Type != change.ControlBatch || c.Slot != t.Batch.Slot || c.Batch != t.Batch.Number {
			return nil
		}
		at.Logged = time.UnixMilli(c.TimeMs).Add(time.Millisecond - 1) // the record has whole milliseconds
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) {
		return t, err
	}
	if at.Logged.IsZero() {
		return t, fmt.Errorf("its batch is not in the log, or the record of it is not kept any more: %w", sinks.ErrNotKept)
	}
	return at, nil
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

// begin begins an era, unless the present one has no complete list: then its first list goes on. Nor does one begin after a loss:
// what the log still has goes on.
func (st *story) begin(at *point) {
	if n := len(st.eras); n > 0 && st.eras[n-1].start() == "" {
		return
	}
	if st.delays.stopped = true; st.isOpen() {
		return
	}
	st.eras = append(st.eras, &era{begin: at})
}

func (st *story) era() *era {
	if len(st.eras) == 0 {
		st.eras = append(st.eras, &era{})
	}
	return st.eras[len(st.eras)-1]
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

// mark adds a position to those of the stream and of its era.
func (st *story) mark(m Mark) {
	e := st.era()
	if e.last.Version != "" && m.Version.Compare(e.last.Version) < 0 {
		st.back = m
	}
	if e.first.Version == "" {
		e.first = m
	}
	st.last, e.last = m, m
	st.close(m)
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

// IncompleteError says that an answer would lack something.
type IncompleteError struct{ Missing []string }

func (e *IncompleteError) Error() string {
	text := "the log does not have all of it:"
	for i, m := range e.Missing {
		if i == 20 {
			return text + fmt.Sprintf("\n  and %d more", len(e.Missing)-i)
		}
		text += "\n  " + m
	}
	return text
}

// errStop ends a reading early.
var errStop = errors.New("enough was read")
