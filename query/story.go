package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/usage"
	"kubecdc/sinks"
)

// Mark is a position of a stream.
type Mark struct {
	Version change.ResourceVersion
	Time    time.Time // of the event, bookmark or list that confirmed it
	Logged  time.Time
	slot    int
	batch   uint64
}

// later is the one of two marks that was logged later.
func later(old, m Mark) Mark {
	if old.Version == "" || !m.Logged.Before(old.Logged) {
		return m
	}
	return old
}

// after reports whether the mark's batch was logged after a change.
func (m *Mark) after(l *sinks.Logged) bool {
	if l.Batch != 0 && l.Slot == m.slot {
		return m.batch > l.Batch
	}
	return m.Logged.After(l.Logged)
}

// story is what the control records tell of one stream.
type story struct {
	stream change.StreamID
	eras   []*era
	gaps   []gap // that were not recovered whole
	delays delays
	last   Mark
	kept   Mark // the last one before everything that was logged is kept
	at     Mark // the last one by the target
	beyond Mark // the first one after the target's version, or its time
	base   Mark // the last one before that
	back   Mark // the last one that is older than the one before: the server's history went back
}

// era is the time from one first list to the next: that of a stream that was forgotten, or of a resource that was removed and is
// back. A first list has all objects; nothing tells what became of those that only the era before had.
type era struct {
	begin       point
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

// point is a place in the log: that of a batch.
type point struct {
	slot   int
	batch  uint64
	logged time.Time
}

// before reports whether a change was logged before the point's batch.
func (p point) before(l *sinks.Logged) bool {
	if l.Batch != 0 && l.Slot == p.slot {
		return l.Batch < p.batch
	}
	return l.Logged.Before(p.logged)
}

// gap is one that was not recovered whole. What it lacks happened after since. One of an unknown beginning, as of a loss, is open
// until the stream has a position again: that of the list which found out what the log has.
type gap struct {
	change.Gap
	since  time.Time
	open   bool
	logged time.Time
}

// passes reports whether the gap ends after a version.
func (g *gap) passes(version change.ResourceVersion) bool { return g.open || g.To.Compare(version) > 0 }

// gap notes a gap that was not recovered whole.
func (st *story) gap(c *change.Control) {
	g := gap{Gap: *c.Gap, since: st.last.Time, logged: time.UnixMilli(c.TimeMs)}
	if g.From == change.UnknownVersion {
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
		if g := &st.gaps[i]; g.open && !m.Logged.Before(g.logged) {
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
	kept      kept
	pulses    pulses
	ends      time.Time // when the last batch was logged
	streams   map[change.StreamID]*story
}

// kept is since when the log has every change of a resource.
type kept map[string]time.Time

func readKept(ctx context.Context, r sinks.Reader, resources []string) (kept, error) {
	known, err := r.Resources(ctx)
	k := kept{}
	for _, id := range known {
		if len(resources) > 0 && !slices.Contains(resources, id) {
			continue
		}
		if k[id], err = r.KeptSince(ctx, id); err != nil {
			return nil, fmt.Errorf("find out since when every change of %s is kept: %w", id, err)
		}
	}
	return k, err
}

func readStories(
	ctx context.Context, r sinks.Reader, resources []string, kept kept, target Target, cut *sinks.Cut,
) (*stories, error) {
	s := &stories{resources: resources, target: target, cut: cut, kept: kept, pulses: pulses{}, streams: map[change.StreamID]*story{}}
	if err := outline(ctx, r, s.matters, s.control); err != nil {
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
			return nil, usage.Errorf("the log has no changes of %s: it has %s", id, strings.Join(known, ", "))
		}
	}
	return s, nil
}

// outline reads the control records, in short where the log can do that.
func outline(ctx context.Context, r sinks.Reader, whole func(*sinks.Span) bool, visit func(*change.Control) error) error {
	if short, able := r.(sinks.Outliner); able {
		return short.Outline(ctx, whole, visit)
	}
	return r.Controls(ctx, time.Time{}, visit)
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
	err := outline(ctx, r, has, func(c *change.Control) error {
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
	if c.Type == change.ControlBatch {
		if logged := time.UnixMilli(c.TimeMs); logged.After(s.ends) {
			s.ends = logged
		}
		for _, p := range c.Positions {
			s.pulses.note(s.target.Happened, p.Time)
			s.position(p, c)
		}
		return nil
	}
	if c.Stream == "" || !s.selects(change.ResourceOf(c.Stream).ID()) {
		return nil
	}
	st := s.stream(c.Stream)
	switch c.Type {
	case change.ControlSnapshotBegin:
		st.begin(c)
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
	case change.ControlStreamPaused, change.ControlStreamResumed, change.ControlStreamReselected, change.ControlStreamEnd,
		change.ControlStreamError, change.ControlStreamRecovered:
		st.delays.stopped = true
	}
	return nil
}

// begin begins an era, unless the present one has no complete list: then its first list goes on. Nor does one begin after a loss:
// what the log still has goes on.
func (st *story) begin(c *change.Control) {
	if n := len(st.eras); n > 0 && st.eras[n-1].start() == "" {
		return
	}
	if st.delays.stopped = true; st.isOpen() {
		return
	}
	st.eras = append(st.eras, &era{begin: point{c.Slot, c.Batch, time.UnixMilli(c.TimeMs)}})
}

func (st *story) era() *era {
	if len(st.eras) == 0 {
		st.eras = append(st.eras, &era{})
	}
	return st.eras[len(st.eras)-1]
}

// position notes a position. Those of one slot come in order; a stream that moved to another slot goes on there.
func (s *stories) position(p change.Position, c *change.Control) {
	resource := change.ResourceOf(p.Stream).ID()
	if !s.selects(resource) || p.ResourceVersion == change.UnknownVersion {
		return
	}
	st, m := s.stream(p.Stream), Mark{p.ResourceVersion, p.Time, time.UnixMilli(c.TimeMs), c.Slot, c.Batch}
	if p.Ended == change.EndedRemoved {
		st.era().removed = p.Time
		st.delays.add(span{st.last.Time, p.Time})
	}
	if p.ResourceVersion == "" {
		return
	}
	st.delays.mark(m, c.Epoch)
	st.mark(m)
	if !m.Logged.After(s.kept[resource]) {
		st.kept = later(st.kept, m)
	}
	if s.reached(m) {
		st.at = later(st.at, m)
	}
	switch {
	case !s.beyond(m) && st.beyond.Version == "":
		st.base = m
	case s.beyond(m) && (st.beyond.Version == "" || m.Logged.Before(st.beyond.Logged)):
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
	if e.last.Version != "" && m.Version.Compare(e.last.Version) < 0 && !m.Logged.Before(e.last.Logged) {
		st.back = m
	}
	if e.first.Version == "" || m.Logged.Before(e.first.Logged) {
		e.first = m
	}
	st.last, e.last = later(st.last, m), later(e.last, m)
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
