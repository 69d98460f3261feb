package timeline

import (
	"slices"
	"time"
)

// MostBack is how far a time that was given as a duration may be moved back.
const MostBack = time.Minute

// Earlier moves a time to the last second before it at which the changes that were read are certain. It returns false if there is none.
func (s *Set) Earlier(t *Target) bool {
	for t.Back >= time.Second {
		if t.Happened, t.Back = t.Happened.Add(-time.Second), t.Back-time.Second; s.areCertainAt(t.Happened) {
			return true
		}
	}
	return false
}

func (s *Set) areCertainAt(t time.Time) bool {
	for _, d := range s.daters {
		e, _ := s.eraOf(d.timeline)
		if t.Before(e.first.Time) || e.removed.IsZero() && t.After(e.last.current) {
			return false
		}
		there, c := *d, Coverage{}
		there.t, there.seenBy, there.position = t, s.seenBy(d.timeline, t), later(d.timeline.earliest, e.first).Version
		there.changes = slices.Concat(d.older, d.changes)
		if there.decide(&c); len(c.Missing) > 0 {
			return false
		}
	}
	return true
}
