// Package timeline finds what the control records of a log tell of its streams. It finds up to where the changes are complete,
// which gaps there are, and when a stream was read late. So it knows whether a change happened by a moment. It knows no object's
// state.
package timeline

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

// Set is what the control records of a log tell of some resources: a timeline for each stream.
type Set struct {
	resources []string // empty: all
	target    Target
	Cut       *sinks.Cut // nil unless the target is a point of the log
	retained  map[string]sinks.Retained
	activity  map[int]activity // by slot
	currents  map[int]*current
	ends      time.Time // when the last batch was logged
	streams   map[change.StreamID]*Timeline
	read      point  // up to where the log was read
	here      *point // a copy of read; nil after the next batch
	steps     []step
	owners    *owners
	versions  map[change.StreamID]change.ResourceVersion // the version of each stream that the target stands for
	daters    map[change.StreamID]*dater                 // if the target is a time
	// The times of all batches, positions and reports are between earliest and latest. Zero: there are none.
	earliest, latest time.Time
}

// current has the streams that a slot's owner read live, by the owner's last record.
type current struct {
	epoch   int64
	streams []change.StreamID
	upTo    time.Time // time up to which the present batch confirms it, or zero
}

// step is a batch that was logged at an earlier time than the batch before it: a clock stepped back, or another slot's clock
// differs.
type step struct {
	n      int
	logged time.Time
}

func newSet(resources []string, retained map[string]sinks.Retained, target Target, cut *sinks.Cut) *Set {
	return &Set{resources: resources, target: target, Cut: cut, retained: retained, activity: map[int]activity{},
		currents: map[int]*current{},
		streams:  map[change.StreamID]*Timeline{}, read: point{Point: sinks.Point{Place: sinks.Place{}}}, owners: newOwners()}
}

// Source finds what the control records of a log tell of some resources at a moment.
type Source func(ctx context.Context, resources []string, moment Target) (*Set, error)

// ReadsAll reads all control records of a log for each moment.
func ReadsAll(r sinks.Reader) Source {
	return func(ctx context.Context, resources []string, moment Target) (*Set, error) {
		target, cut, err := resolveWithCut(ctx, r, moment, time.Time{})
		if err != nil {
			return nil, err
		}
		return readSet(ctx, r, resources, target, cut)
	}
}

func readSet(ctx context.Context, r sinks.Reader, resources []string, target Target, cut *sinks.Cut) (*Set, error) {
	retained, err := r.Retained(ctx, resources)
	if err != nil {
		return nil, err
	}
	s := newSet(resources, retained, target, cut)
	if err := r.Controls(ctx, time.Time{}, s.needsAll, s.addControl); err != nil {
		return nil, err
	}
	return s, s.verify(ctx, r)
}

// copyOf returns a copy for some resources, which other records do not change.
func (s *Set) copyOf(resources []string) *Set {
	own := *s
	own.resources, own.steps, own.read.Place = resources, slices.Clone(s.steps), maps.Clone(s.read.Place)
	own.activity, own.currents, own.streams, own.owners =
		map[int]activity{}, map[int]*current{}, map[change.StreamID]*Timeline{}, newOwners()
	for slot, c := range s.currents {
		known := *c
		own.currents[slot] = &known
	}
	for id, st := range s.streams {
		if own.selects(change.ResourceOf(id).ID()) {
			own.streams[id] = st.copy()
		}
	}
	return &own
}

// verify returns an error if the log has nothing of a resource.
func (s *Set) verify(ctx context.Context, r sinks.Reader) error {
	for _, id := range s.resources {
		_, found := s.retained[id]
		for stream := range s.streams {
			found = found || change.ResourceOf(stream).ID() == id
		}
		if !found {
			known, err := r.Resources(ctx)
			if err != nil {
				return err
			}
			return fault.Usagef("the log has no changes of %s: it has %s", id, strings.Join(known, ", "))
		}
	}
	return nil
}

// batchesBefore returns the number of batches before the one of a control record. The record of a span stands for several
// batches.
func (s *Set) batchesBefore(c *change.Control) int {
	if last, known := s.read.Place[c.Slot]; known && c.Batch > last {
		return s.read.n + int(c.Batch-last-1)
	}
	return s.read.n
}

// pointBefore returns the point before the batch of a control record.
func (s *Set) pointBefore(c *change.Control) *point {
	last := max(c.Batch, 1) - 1
	if s.here == nil || s.here.Place[c.Slot] != last {
		s.here = &point{s.batchesBefore(c), sinks.Point{Place: maps.Clone(s.read.Place), Logged: time.UnixMilli(c.TimeMs)}}
		s.here.Place[c.Slot] = last
	}
	return s.here
}

// endBatch records the end of a batch.
func (s *Set) endBatch(c *change.Control) {
	logged, n := time.UnixMilli(c.TimeMs), s.batchesBefore(c)
	if s.include(logged); logged.Before(s.ends) {
		s.addStep(step{n, logged})
	} else {
		s.ends = logged
	}
	s.read.Place[c.Slot] = c.Batch
	s.read.n = n + 1
	s.here = nil
}

// addStep adds a step. Earlier steps to a later time do not matter any more.
func (s *Set) addStep(x step) {
	for n := len(s.steps); n > 0 && !s.steps[n-1].logged.Before(x.logged); n-- {
		s.steps = s.steps[:n-1]
	}
	s.steps = append(s.steps, x)
}

// TimeBefore returns a time by which the log had neither the batch of a mark nor a later one, even if clocks stepped.
func (s *Set) TimeBefore(m Mark) time.Time {
	t := m.Logged
	if i := slices.IndexFunc(s.steps, func(x step) bool { return x.n > m.n }); i >= 0 && s.steps[i].logged.Before(t) {
		t = s.steps[i].logged
	}
	return t.Add(-time.Millisecond)
}

// SafePosition returns a position by which the log has no change of any stream after the moment, except parts of lists, which
// readers find. It is empty if there is none. Up to a position the log has only what happened up to its version. Changes after it
// may still be older than the moment: corrections by a snapshot or a proof, and what a list finds.
func (s *Set) SafePosition() (first Mark) {
	var last Mark
	for _, st := range s.streams {
		switch b := st.firstOfVersion; {
		case b.Version == "":
		case st.afterTarget.Version != "" && (first.Version == "" || b.n < first.n):
			first = b
		case last.Version == "" || b.n > last.n:
			last = b
		}
	}
	if first.Version == "" {
		return last
	}
	return first
}

// needsAll reports whether each position of a span of batches is needed. Positions are needed near the target, and if they are a
// stream's first position or end a gap. In other spans the last position of each stream is enough.
func (s *Set) needsAll(span *sinks.Span) bool {
	s.include(span.Earliest)
	t := s.target
	_, known := s.read.Place[span.Slot]
	switch {
	case !known:
		return true
	case !t.Happened.IsZero() && !t.Happened.After(time.UnixMilli(span.TimeMs).Add(around)) &&
		!t.Happened.Before(span.Earliest.Add(-around)):
		return true
	case s.Cut != nil && span.First <= s.Cut.Batches[span.Slot] && s.Cut.Batches[span.Slot] < span.Batch:
		return true
	}
	return slices.ContainsFunc(span.Positions, func(p change.Position) bool {
		if !s.selects(change.ResourceOf(p.Stream).ID()) {
			return false
		}
		st := s.streams[p.Stream]
		return st == nil || st.currentEra().start() == "" || st.isOpen() || st.wentBack ||
			p.ResourceVersion.Compare(st.last.Version) < 0 ||
			t.Version != "" && p.ResourceVersion.Compare(t.Version) > 0 && st.last.Version.Compare(t.Version) <= 0
	})
}

func (s *Set) selects(resource string) bool {
	return len(s.resources) == 0 || slices.Contains(s.resources, resource)
}

func (s *Set) addControl(c *change.Control) error {
	s.owners.add(c)
	switch {
	case c.Type == change.ControlBatch:
		for _, p := range c.Positions {
			s.addActivity(c.Slot, p.Time, p.Time)
			s.addPosition(p, c)
		}
		s.confirm(c)
		s.endBatch(c)
		return nil
	case c.Type == change.ControlCurrent:
		s.addCurrent(c)
		return nil
	case c.Stream == "" || !s.selects(change.ResourceOf(c.Stream).ID()):
		return nil
	}
	st := s.timelineOf(c.Stream)
	switch c.Type {
	case change.ControlSnapshotBegin:
		st.beginEra(s.pointBefore(c))
	case change.ControlSnapshotEnd:
		if e := st.currentEra(); e.listed == "" {
			e.listed = c.ResourceVersion
		}
	case change.ControlGap:
		if c.Gap == nil {
			break
		}
		st.recorded = append(st.recorded, c.Gap)
		if st.delays.startGap(c.Gap.To); !c.Gap.Complete {
			st.addGap(c)
		}
	case change.ControlBehind:
		st.late = time.UnixMilli(c.SinceMs)
		st.delays.lates = append(st.delays.lates, lateSpan(c))
	case change.ControlStreamPaused, change.ControlStreamResumed, change.ControlStreamReselected, change.ControlStreamEnd,
		change.ControlStreamError, change.ControlStreamRecovered:
		st.delays.stopped = true
	}
	return nil
}

// addPosition records a position. If the stream has moved to another slot, it goes on there.
func (s *Set) addPosition(p change.Position, c *change.Control) {
	if !s.selects(change.ResourceOf(p.Stream).ID()) {
		return
	}
	if p.ResourceVersion == change.UnknownVersion {
		s.timelineOf(p.Stream).wentBack = true
		return
	}
	st, m := s.timelineOf(p.Stream), Mark{p.ResourceVersion, p.Time, p.Time, time.UnixMilli(c.TimeMs), c.Slot, c.Batch,
		s.pointBefore(c)}
	if !st.late.IsZero() {
		m.current, st.late = st.late, time.Time{}
	}
	if p.Ended == change.EndedRemoved {
		st.currentEra().removed = p.Time
		st.delays.addUnread(span{st.last.Time, p.Time})
	}
	if st.hasEnded = p.Ended != ""; p.ResourceVersion == "" {
		return
	}
	s.addMark(st, m, c.Epoch)
}

// addCurrent records which streams a slot's owner read live.
func (s *Set) addCurrent(c *change.Control) {
	known := s.currents[c.Slot]
	if len(c.Streams) > 0 {
		known = &current{epoch: c.Epoch, streams: c.Streams}
		s.currents[c.Slot] = known
	}
	s.addActivity(c.Slot, time.UnixMilli(c.SinceMs), time.UnixMilli(c.TimeMs))
	if known != nil && known.epoch == c.Epoch {
		known.upTo = time.UnixMilli(c.TimeMs)
	}
}

// confirm repeats the last position of each stream that a batch confirms as current.
func (s *Set) confirm(c *change.Control) {
	known := s.currents[c.Slot]
	if known == nil || known.upTo.IsZero() {
		return
	}
	for _, id := range known.streams {
		st := s.streams[id]
		// A record from before another era may follow its beginning.
		if st == nil || st.hasEnded || st.currentEra().first.Version == "" || st.last.slot != c.Slot ||
			!st.last.Time.Before(known.upTo) {
			continue
		}
		m := st.last
		m.Time, m.current, m.Logged, m.batch, m.point =
			known.upTo, known.upTo, time.UnixMilli(c.TimeMs), c.Batch, s.pointBefore(c)
		s.addMark(st, m, c.Epoch)
	}
	known.upTo = time.Time{}
}

// addMark adds a position to the stream's timeline, and to its places around the target.
func (s *Set) addMark(st *Timeline, m Mark, epoch int64) {
	resource := change.ResourceOf(st.Stream).ID()
	st.delays.addMark(m, epoch)
	before := len(st.eras)
	if st.addMark(m); before > 0 && st.eras[len(st.eras)-1].first == m {
		s.beginEra(st, m)
	}
	if s.target.Version != "" && !s.isAfterTarget(m) {
		st.currentEra().reached = m.Time
	}
	if !m.Logged.After(s.retained[resource].Since) {
		st.retained = m
	}
	if s.hasReached(m) {
		if st.earliest.Version == "" || !m.Time.After(s.target.Happened.Add(-s.target.Back)) {
			st.earliest = m
		}
		st.atTarget = m
	}
	switch {
	case !s.isAfterTarget(m) && st.afterTarget.Version == "":
		if m.Version != st.beforeTarget.Version {
			st.firstOfVersion = m
		}
		st.beforeTarget = m
	case s.isAfterTarget(m) && st.afterTarget.Version == "":
		st.afterTarget = m
	}
}

// beginEra changes the places around a target that is a version. Either an earlier era has that version, or the new era may have
// it.
func (s *Set) beginEra(st *Timeline, m Mark) {
	switch ended := len(st.eras) - 1; {
	case s.target.Version == "" || s.isAfterTarget(m):
	case !slices.ContainsFunc(st.eras[:ended], func(e *era) bool { return e.has(s.target.Version, false) }):
		st.beforeTarget, st.afterTarget, st.firstOfVersion = Mark{}, Mark{}, Mark{}
	case st.afterTarget.Version == "":
		st.afterTarget = m
	}
}

// hasReached reports whether a position is at or before the target.
func (s *Set) hasReached(m Mark) bool {
	if s.Cut == nil {
		return s.target == Target{} || !s.target.Happened.IsZero() && !m.Time.After(s.target.Happened)
	}
	if has, known := s.Cut.Batches.Has(m.slot, m.batch); known {
		return has
	}
	return s.target == Target{} || !m.Logged.After(s.target.Logged)
}

// isAfterTarget reports whether a position is after the target's version or time.
func (s *Set) isAfterTarget(m Mark) bool {
	return s.target.Version != "" && m.Version.Compare(s.target.Version) > 0 ||
		!s.target.Happened.IsZero() && m.Time.After(s.target.Happened)
}

// StreamOf returns the timeline of a change's stream, or nil if the log has no control record of it.
func (s *Set) StreamOf(l *sinks.Logged) *Timeline { return s.streams[l.Stream.ID()] }

func (s *Set) timelineOf(id change.StreamID) *Timeline {
	if s.streams[id] == nil {
		s.streams[id] = &Timeline{Stream: id}
	}
	return s.streams[id]
}

// NoStream says that the log has no stream that could answer. Then an answer without objects proves nothing.
func (s *Set) NoStream(namespace string) string {
	resources := "any resource"
	if len(s.resources) > 0 {
		resources = strings.Join(s.resources, ", ")
	}
	if len(s.streams) == 0 && len(s.retained) > 0 { // a copy of a part of a log
		return "the log has no control record of " + resources + ", so it is unknown from where on its changes are complete"
	}
	text := "the log has no stream of " + resources
	if namespace != "" {
		text += " in namespace " + namespace
	}
	return text + ": they were not exported"
}
