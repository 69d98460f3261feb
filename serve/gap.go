package serve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// heldGap has the changes of a gap, in the order in which they were found. If a list found some of them, a client can't resume in that
// order. So a watch shows them in the order of their versions, with the deletions last. The last deletion has the list's version.
type heldGap struct {
	id       string
	stream   change.StreamID
	complete bool // its changes are in order, and not held
	changes  []sinks.Logged
	began    time.Time
	hasAll   bool // the log has its last change, which may not yet have been read
}

const (
	retryGap    = time.Second // time after the last change until the log is searched for the end of a gap
	mostHeld    = 20_000      // maximum number of changes
	longestHeld = time.Minute // maximum time without the end of the gap
	gapRecorded = time.Hour   // maximum time from a gap's record to its changes
)

// hold holds a change of a gap until the gap has ended. It reports false for a change that can be written now.
func (w *watcher) hold(ctx context.Context, l *sinks.Logged) (bool, error) {
	g := &w.held
	if len(g.changes) > 0 && l.Gap != g.id && (l.Gap != "" || l.Stream.ID() == g.stream) {
		if err := w.release(ctx, true); err != nil {
			return false, err
		}
	}
	if l.Gap == "" || l.Gap == g.id && g.complete {
		return false, nil
	}
	if l.Gap != g.id {
		end, _, err := w.endOf(ctx, l.Gap, l)
		if err != nil {
			return false, err
		}
		*g = heldGap{id: l.Gap, stream: l.Stream.ID(), complete: end != nil && end.Complete, began: time.Now()}
		if g.complete {
			return false, nil
		}
	}
	if len(g.changes) == mostHeld {
		return false, expired(errors.New("a gap has too many changes to be watched: list again"))
	}
	g.changes, g.hasAll = append(g.changes, *l), false
	return true, nil
}

// release writes the changes of a gap, if it has ended. That is so if ended is true, or if the log already had all of them at the last
// call.
func (w *watcher) release(ctx context.Context, ended bool) error {
	if len(w.held.changes) == 0 {
		return nil
	}
	changes, before := w.held.changes, w.held.hasAll
	end, hasAll, err := w.endOf(ctx, w.held.id, &changes[0])
	switch w.held.hasAll = hasAll; {
	case err != nil || ended:
	case time.Since(w.held.began) > longestHeld && !hasAll:
		err = expired(errors.New("a gap does not end: list again"))
	case !hasAll || !before:
		return nil
	}
	if err != nil {
		return err
	}
	w.held = heldGap{}
	if end != nil && end.To.Compare(w.from) <= 0 {
		return nil // the client has all of it
	}
	inOrder(changes)
	for i := range changes {
		l := &changes[i]
		if i == len(changes)-1 && l.Op == change.Delete && end != nil {
			w.version = end.To // so that a client with only a part of the deletions gets all again
		}
		if err := w.change(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// inOrder sorts the changes of a gap by version. An inferred deletion has no version: it comes before the next object of its name, or
// last.
func inOrder(changes []sinks.Logged) {
	next := map[string]change.ResourceVersion{}
	for i := range changes {
		if l := &changes[i]; l.Op == change.Create {
			next[l.Change.Key()] = l.ResourceVersion
		}
	}
	slices.SortStableFunc(changes, func(a, b sinks.Logged) int {
		aAt, aLast := place(&a, next)
		bAt, bLast := place(&b, next)
		return cmp.Or(aLast-bLast, aAt.Compare(bAt), cmp.Compare(b.Op, a.Op)) // d after c
	})
}

func place(l *sinks.Logged, next map[string]change.ResourceVersion) (version change.ResourceVersion, last int) {
	switch following, again := next[l.Change.Key()]; {
	case l.Op != change.Delete || !l.Inferred:
		return l.ResourceVersion, 0
	case again:
		return following, 0
	}
	return l.ResourceVersion, 1
}

var errFound = errors.New("found")

// endOf returns the record that ends a gap, or nil if the log does not have it yet. The record is before the gap's changes or after
// them. The log has all changes once the stream's position has reached the record's.
func (w *watcher) endOf(ctx context.Context, id string, l *sinks.Logged) (end *change.Gap, hasAll bool, err error) {
	err = w.log.Controls(ctx, l.Logged.Add(-gapRecorded), func(*sinks.Span) bool { return false }, func(c *change.Control) error {
		if c.Type == change.ControlGap && c.Gap.ID == id {
			end = c.Gap
		}
		for _, p := range c.Positions {
			if hasAll = end != nil && p.Stream == l.Stream.ID() && p.ResourceVersion.Compare(end.To) >= 0; hasAll {
				return errFound
			}
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return end, hasAll, err
}
