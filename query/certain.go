package query

import (
	"context"
	"slices"

	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// mostTries is how many of the times at which the changes are certain are tried. The log may lack something else at them.
const mostTries = 3

// readCertain returns a reader of the state at a moment. If something is uncertain at a time that may be moved, it is the state at the
// last second before it at which nothing is.
func readCertain(ctx context.Context, r sinks.Reader, all timeline.Source, q Question, moment timeline.Target) (*stateReader, *State, error) {
	s, err := all(ctx, q.Resources, moment)
	if err != nil {
		return nil, nil, err
	}
	f, state, err := newStateReader(ctx, r, s, all, q, moment)
	if err != nil || state.isCertain() {
		return f, state, err
	}
	for tries := 0; tries < mostTries && s.Earlier(&moment); tries++ {
		moved, there, err := readCertain(ctx, r, all, q, timeline.Target{Happened: moment.Happened})
		if err != nil || there.isCertain() {
			return moved, there, err
		}
	}
	return f, state, nil
}

// isCertain reports whether the control records and the times of changes leave no doubt.
func (s *State) isCertain() bool {
	return !slices.ContainsFunc(s.Coverage, func(c timeline.Coverage) bool { return c.Unlisted || len(c.Missing) > 0 })
}
