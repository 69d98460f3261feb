package timeline

import (
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// When is whether a change happened before a moment.
type When int

const (
	Before When = iota // by the moment
	After
	Unknown
)

// gapOf returns the gap of the moment's era in which a change was inferred. It returns nil if the change was not inferred, or if
// its gap was recovered completely.
func (s *Set) gapOf(l *sinks.Logged, st *Timeline) *gap {
	if !l.Inferred || st == nil {
		return nil
	}
	e, _ := s.eraOf(st)
	own := slices.Index(st.eras, e)
	for i := range st.gaps {
		if g := &st.gaps[i]; g.ID == l.Gap && g.era == own {
			return g
		}
	}
	return nil
}

// OrderOf returns whether a change happened by the moment. An inferred change was found by comparing two states. An inferred
// deletion has its object's last known version. It happened at an unknown version before its gap's end, or before it was found.
func (s *Set) OrderOf(l *sinks.Logged, st *Timeline) When {
	if s.Cut != nil {
		if s.Cut.Has(l) {
			return Before
		}
		return After
	}
	if s.isInitial(l, st) {
		return Before
	}
	if era, _ := s.CompareEra(st, l); era > 0 {
		return After
	}
	version, gap := s.versions[l.Stream.ID()], s.gapOf(l, st)
	known := l.ResourceVersion.Compare(version) <= 0
	switch {
	case gap != nil && l.Op == change.Delete && gap.To.Compare(version) <= 0:
		return Before
	case gap != nil && gap.From.Compare(version) < 0 && (l.Op == change.Delete || !known):
		return Unknown
	case gap != nil && l.Op == change.Delete:
		return After
	case l.Inferred && l.Op == change.Delete && known && st != nil:
		return s.orderOfFound(l, st)
	case known:
		return Before
	case l.Op == change.Delete && !s.target.Happened.IsZero() && st != nil && st.atTarget.has(l):
		// It was deleted by the position at which the stream was current again.
		return Before
	}
	return After
}

// isInitial reports whether a change is part of the state with which the moment's era began, after a restore of etcd. That state
// comes from the previous era, and from the new era's list.
func (s *Set) isInitial(l *sinks.Logged, st *Timeline) bool {
	if st == nil || len(st.eras) < 2 {
		return false
	}
	e, _ := s.eraOf(st)
	return e != nil && e.full.has(l)
}

// orderOfFound is OrderOf for a deletion that was inferred outside of a gap. A snapshot or a proof found it, a watch gave it no
// version of its own, or its resource was removed.
func (s *Set) orderOfFound(l *sinks.Logged, st *Timeline) When {
	e, _ := s.eraOf(st)
	if e == nil {
		return Unknown
	}
	ended := !e.removed.IsZero() && !e.last.has(l) // until then the resource was served
	switch t := s.target; {
	case !t.Happened.IsZero() && !l.Time.After(t.Happened):
		return Before
	case ended && (t.Happened.IsZero() || !t.Happened.After(e.last.Time)):
		return After
	case t.Happened.IsZero() && (st.afterTarget.Version == "" || st.afterTarget.has(l)):
		return Before
	}
	return Unknown
}

// DescribeUnknown says in which range of versions a change of unknown version happened.
func (s *Set) DescribeUnknown(l *sinks.Logged, st *Timeline) string {
	if gap := s.gapOf(l, st); gap != nil {
		return fmt.Sprintf("it was %s at an unknown resourceVersion between %s and %s", l.Op.Past(), gap.From, gap.To)
	}
	return fmt.Sprintf("it was %s at an unknown resourceVersion after %s, and before %s", l.Op.Past(), l.ResourceVersion,
		l.Time.UTC().Format(time.RFC3339))
}

// IsAfterPosition reports whether a change before the cut is newer than the stream's position at the cut.
func (s *Set) IsAfterPosition(l *sinks.Logged, st *Timeline) bool {
	position := s.versions[st.Stream]
	if s.isInitial(l, st) {
		return false
	}
	if l.Op == change.Delete {
		gap := s.gapOf(l, st)
		return gap != nil && gap.To.Compare(position) > 0
	}
	return l.ResourceVersion.Compare(position) > 0
}
