package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// emptyWatches is what the stream knows after empty watches: watches that ran until their timeout and delivered neither an event
// nor a bookmark.
//
// A server with a watch cache sends bookmarks, which move the position of a quiet stream. Events have no watch cache in
// kube-apiserver, and other resources may have none (--watch-cache=false, aggregated servers). Their positions must move too,
// or the server compacts them, and each watch ends with 410. So the stream finds out by itself that nothing happened:
//
//  1. A watch from the position P is empty. The history is verified (verifying.go). That consistent read also wakes a watch cache that
//     has received nothing since its start. From then on there are bookmarks.
//  2. The next watch is empty too. The stream lists all identities at L, a consistent read. If key, uid and version of each object are
//     as in the known objects, no change between P and L has lasted. An object may have been created and deleted again.
//  3. So the watch goes on from P, not from L. L is past by then, so the watch delivers at once what happened before L. If
//     it is empty too, nothing happened, and the position moves to L. The stream goes on with step 2.
//
// If the server compacts faster than that, step 3 comes too late: comparison.go lists earlier.
//
// An object that was created and deleted between P and L can be missed. Two watches must then deliver nothing of it until their
// timeout, and end normally. That takes a stuck watch cache that sends no bookmarks, since etcd's client ends a watch whose
// member is cut off from the others. The last state of an object is never missed, since step 2 shows it.
//
// If the list differs, the watch has to deliver the difference. If it is empty once more, it is treated as expired: by fresh
// connections, then by recovery or a list.
//
// The cost is one list of identities for each watch, a minute at most by default, of a collection in which nothing happens.
// Large collections are listed more rarely (listShare).
type emptyWatches struct {
	watches   int                    // in a row
	unchanged change.ResourceVersion // a list at this version had what the log has, so the next watch must be empty too
	differs   bool                   // the last list was not what the log has
	compared  bool                   // the list was made while the last watch was open (comparison.go)
	listed    time.Time
	listTook  time.Duration
}

const (
	// longEnough is how long a watch takes at most to deliver what happened before it began. A watch that the server ends
	// early counts as empty from then on.
	longEnough = 20 * time.Second
	// listShare bounds the lists' part of the time to 1/20. Two lists are never more than listPause from each other.
	listShare = 20
	listPause = 2 * time.Minute
)

// endedEmpty decides what follows an empty watch. differed says that the list before the watch differed from the log.
func (w *watching) endedEmpty(ctx context.Context, differed bool) (state, error) {
	if differed {
		reason := fmt.Sprintf("the watch from resourceVersion %s does not deliver changes that a list shows", w.cursor)
		return w.enter(&expired{w, RelistEmptyWatch}, reason), nil
	}
	w.client, w.bookmarks = w.shared, false
	w.empty.watches++
	if l := w.catchUp; l != nil && w.empty.watches > 1 { // nothing moves the cursor past the list's end
		l.restart()
		return w.enter(l, "the list begins again: the watch after it is empty"), nil
	}
	if unchanged := w.empty.unchanged; unchanged != "" {
		w.empty.unchanged = ""
		if err := w.confirm(ctx, w.watched(unchanged)); err != nil {
			return w, err
		}
	}
	if w.empty.compared {
		w.empty.compared = false
		return w.enter(w, "the watch was empty, and was compared with a list while it was open"), nil
	}
	if w.empty.resting() {
		return w.enter(w, "the watch was empty; the collection is large and was compared a moment ago"), nil
	}
	return w.enter(w.verify(w), "the watch was empty"), nil
}

// reset forgets all but how long a list takes.
func (x *emptyWatches) reset() { *x = emptyWatches{listed: x.listed, listTook: x.listTook} }

// resting reports whether the last list took so long that the next one must wait.
func (x *emptyWatches) resting() bool {
	return time.Since(x.listed) < min(listShare*x.listTook, listPause)
}

// listDue reports whether a list has to show whether anything happened.
func (x *emptyWatches) listDue() bool { return x.watches > 1 && x.unchanged == "" && !x.differs }

// compare lists identities and records whether they are what the log has.
func (w *watching) compare(ctx context.Context) error {
	started, n, same := time.Now(), 0, true
	version, err := w.listIdentities(ctx, nil, func(o apiclient.Object) {
		same = same && w.known.Compare(o.Key(), o.UID, o.Version) == known.Same
		n++
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		w.freshTries = 0
	}
	w.empty.listed, w.empty.listTook = time.Now(), time.Since(started)
	switch {
	case apiclient.IsUnreadable(err) && !errors.Is(err, apiclient.ErrUnsupported):
		// An object that can't be read is in the dead letter, and not among the known objects.
		w.log.Warn("a quiet collection can't be compared with the log", "error", err)
	case err != nil:
		return err
	case version.Compare(w.cursor) < 0: // a server that is behind, or was restored: verifying.go finds out
	case same && n == w.known.Len():
		w.empty.unchanged = version
	default:
		w.empty.differs = true
	}
	return nil
}
