package query

import (
	"context"
	"slices"
	"time"

	"kubecdc/sinks"
)

// MostBack is how far a time that was given as a duration may be moved back.
const MostBack = time.Minute

// mostTries is how many of the times at which the changes are certain are tried. The log may lack something else at them.
const mostTries = 3

// readCertain returns a reader of the state at a moment. If something is uncertain at a time that may be moved, it is the state at the
// last second before it at which nothing is.
func readCertain(ctx context.Context, r sinks.Reader, all controls, q Question, moment Target) (*stateReader, *State, error) {
	s, err := all(ctx, q.Resources, moment)
	if err != nil {
		return nil, nil, err
	}
	f, state, err := s.stateReader(ctx, r, all, q, moment)
	if err != nil || state.isCertain() {
		return f, state, err
	}
	for tries := 0; tries < mostTries && f.earlier(&moment); tries++ {
		moved, there, err := readCertain(ctx, r, all, q, Target{Happened: moment.Happened})
		if err != nil || there.isCertain() {
			return moved, there, err
		}
	}
	return f, state, nil
}

// isCertain reports whether the control records and the times of changes leave no doubt.
func (s *State) isCertain() bool {
	return !slices.ContainsFunc(s.Coverage, func(c Coverage) bool { return c.Unlisted || len(c.Missing) > 0 })
}

// earlier moves a time to the last second before it at which the changes that were read are certain. It returns false if there is none.
func (f *stateReader) earlier(t *Target) bool {
	for t.Back >= time.Second {
		if t.Happened, t.Back = t.Happened.Add(-time.Second), t.Back-time.Second; f.areCertainAt(t.Happened) {
			return true
		}
	}
	return false
}

func (f *stateReader) areCertainAt(t time.Time) bool {
	for _, d := range f.daters {
		e, _ := f.timelines.eraOf(d.timeline)
		if t.Before(e.first.Time) || e.removed.IsZero() && t.After(e.last.current) {
			return false
		}
		there, c := *d, Coverage{}
		there.t, there.seenBy, there.position = t, f.timelines.seenBy(d.timeline, t), later(d.timeline.earliest, e.first).Version
		there.changes = slices.Concat(d.older, d.changes)
		if there.decide(&c); len(c.Missing) > 0 {
			return false
		}
	}
	return true
}
