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

// heldGap has the changes of a gap, in the order in which they were found. If some were found by a list, that is no order in which a client
// can resume. So a watch shows them in the order of their versions, with the deletions last, and the last of these at the version of the list.
type heldGap struct {
	id       string
	stream   change.StreamID
	complete bool // its changes are in order, and not held
	changes  []sinks.Logged
}

const (
	retryGap = time.Second // until the log is asked again for the end of a gap
	mostHeld = 20_000      // changes
)

// hold takes a change of a gap until the gap has ended. It reports false for a change that is in its place.
func (w *watcher) hold(ctx context.Context, l *sinks.Logged) (bool, error) {
	g := &w.held
	if l.Stream.ID() == g.stream && l.Gap != g.id {
		if err := w.release(ctx, true); err != nil {
			return false, err
		}
	}
	if l.Gap == "" || l.Gap == g.id && g.complete {
		return false, nil
	}
	if l.Gap != g.id {
		end, err := w.endOf(ctx, l.Gap, l.Logged)
		if err != nil {
			return false, err
		}
		*g = heldGap{id: l.Gap, stream: l.Stream.ID(), complete: end != nil && end.Complete}
		if g.complete {
			return false, nil
		}
	}
	if len(g.changes) == mostHeld {
		return false, expired(errors.New("a gap has too many changes to be watched: list again"))
	}
	g.changes = append(g.changes, *l)
	return true, nil
}

// release shows the changes of a gap, if the log has its end.
func (w *watcher) release(ctx context.Context, ended bool) error {
	if len(w.held.changes) == 0 {
		return nil
	}
	changes := w.held.changes
	end, err := w.endOf(ctx, w.held.id, changes[0].Logged)
	if err != nil || end == nil && !ended {
		return err
	}
	w.held = heldGap{}
	if end != nil && end.To.Compare(w.from) <= 0 {
		return nil // the client has all of it
	}
	inOrder(changes)
	for i := range changes {
		if l := &changes[i]; i == len(changes)-1 && l.Op == change.Delete && end != nil {
			w.version = end.To // a client that has got only a part of the deletions gets all again
		}
		if err := w.change(ctx, &changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// inOrder sorts the changes of a gap by version. A deletion that was inferred has none: it comes before the next object of its name, or last.
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

func place(l *sinks.Logged, next map[string]change.ResourceVersion) (at change.ResourceVersion, last int) {
	switch at, again := next[l.Change.Key()]; {
	case l.Op != change.Delete || !l.Inferred:
		return l.ResourceVersion, 0
	case again:
		return at, 0
	}
	return l.ResourceVersion, 1
}

var errFound = errors.New("found")

// endOf is the record that ends a gap; nil: the log does not have it yet.
func (w *watcher) endOf(ctx context.Context, id string, since time.Time) (end *change.Gap, err error) {
	err = w.log.Controls(ctx, since, nil, func(c *change.Control) error {
		if c.Type == change.ControlGap && c.Gap.ID == id {
			end = c.Gap
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return end, err
}
