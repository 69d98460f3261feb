package serve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/web"
	"kubecdc/sinks"
)

// heldGap has the changes of a gap, in the order in which they were found. If a list found some of them, a client can't resume in
// that order. So a watch shows them in the order of their versions, with the deletions last. The last deletion has the list's
// version.
type heldGap struct {
	id       string
	stream   change.StreamID
	complete bool // its changes are in order, and not held
	changes  []sinks.Logged
	bytes    int
	memory   *memory
	began    time.Time
	end      *change.Gap // the record of the gap, or nil if the log does not have it yet
	hasAll   bool        // the log has its last change, which may not yet have been read
	asked    bool        // the log already had it at the last call of release, and no change came since
}

const (
	retryGap    = time.Second // time after the last change until the log is searched for the end of a gap
	mostHeld    = 20_000      // maximum number of changes
	mostBytes   = 64 << 20    // maximum size of the held objects. It is a part of the user's memory
	longestHeld = time.Minute // maximum time without the end of the gap
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
		*g = heldGap{id: l.Gap, stream: l.Stream.ID(), began: time.Now()}
		if err := w.findEnd(ctx); err != nil {
			return false, err
		}
		if g.complete = g.end != nil && g.end.Complete; g.complete {
			return false, nil
		}
	}
	if g.memory == nil {
		g.memory = &memory{shares: w.views.memory, user: web.SenderOf(ctx)}
	}
	size := len(l.Before) + len(l.After)
	if g.bytes += size; len(g.changes) == mostHeld || g.bytes > mostBytes || !g.memory.grow(int64(size)) {
		return false, expired(errors.New("a gap has too many changes to be watched: list again"))
	}
	g.changes, g.asked = append(g.changes, *l), false
	return true, nil
}

// release writes the changes of a gap, if it has ended. A gap has ended if ended is true, or if the log already had all of its
// changes at the last call.
func (w *watcher) release(ctx context.Context, ended bool) error {
	if len(w.held.changes) == 0 {
		return nil
	}
	g := &w.held
	asked, err := g.asked, w.findEnd(ctx)
	switch g.asked = g.hasAll; {
	case err != nil || ended:
	case time.Since(g.began) > longestHeld && !g.hasAll:
		err = expired(errors.New("a gap does not end: list again"))
	case !g.hasAll || !asked:
		return nil
	}
	if err == nil {
		err = w.checkHistory(ctx)
	}
	if err != nil {
		return err
	}
	changes, end := g.changes, g.end
	defer g.memory.shrink(0)
	*g = heldGap{}
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

// inOrder sorts the changes of a gap by version. An inferred deletion has no version: it comes before the next object of its
// name, or last.
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

// findEnd finds the record of the held gap, which is before its changes or after them.
func (w *watcher) findEnd(ctx context.Context) (err error) {
	w.held.end, w.held.hasAll, err = w.views.follower.Gap(ctx, w.held.stream, w.held.id)
	return err
}
