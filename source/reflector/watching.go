package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
)

// watching reads events from the cursor until the connection ends. One value lasts over all connections, until the stream
// lists or recovers.
type watching struct {
	*Reflector
	catchUp    *listing // an inconsistent list whose end the watch has to pass, or nil
	empty      emptyWatches
	freshTries int                   // fresh connections tried since the last event
	connection *apiclient.Connection // nil: nothing else can be asked over it
	bookmarked bool                  // a bookmark came on this connection
	unknown    string                // the last type of an event that is not known
}

// watch follows the collection from the cursor. list is an inconsistent list that the watch must catch up with, or nil.
func (r *Reflector) watch(list *listing) *watching { return &watching{Reflector: r, catchUp: list} }

func (w *watching) name() change.StreamState {
	if w.catchUp != nil {
		return change.StateCatchingUp
	}
	return change.StateWatching
}

// gapOfList returns the gap of a list that has to be made, or nil if it is still the first list.
func (w *watching) gapOfList() *change.Gap {
	switch {
	case w.catchUp != nil:
		return w.catchUp.gap
	case w.position != "":
		return w.gapFrom(w.position)
	}
	return nil
}

func (w *watching) step(ctx context.Context) (state, error) {
	if err := w.finishCatchUp(ctx); err != nil {
		return w, err
	}
	if err := w.followSchema(ctx); err != nil {
		return w, err
	}
	seconds := watchSeconds(w.options, w.bookmarks, rand.Float64())
	run := watchRun{started: time.Now(), timeout: time.Duration(seconds) * time.Second, differed: w.empty.differs}
	conn, err := w.client.Watch(ctx, w.stream, w.options.MetadataOnly, w.cursor, seconds)
	if err != nil {
		run.err = err
		return w.ended(ctx, run)
	}
	defer conn.Close()
	return w.follow(ctx, conn, run)
}

// follow emits the events of an open watch until it ends.
func (w *watching) follow(ctx context.Context, conn *apiclient.Watch, run watchRun) (state, error) {
	w.bookmarked = false
	conn.GoesOn(w.upToDate)
	w.connection = w.confirmable(ctx, conn)
	if run.err = w.endRefusal(ctx); run.err == nil {
		run.events, run.err = w.readEvents(ctx, conn, w.scheduleComparison(ctx, run.timeout))
	}
	w.since = time.Time{}
	return w.ended(ctx, run)
}

// confirmable returns the connection of a watch if an answer over it says something about the watch, else nil. An aggregated API
// server's answer comes over another connection.
func (w *watching) confirmable(ctx context.Context, conn *apiclient.Watch) *apiclient.Connection {
	c := conn.Connection()
	if c == nil {
		return nil
	}
	if aggregated, err := discovery.Aggregated(ctx, w.client, w.stream.Resource); aggregated || err != nil {
		return nil
	}
	return c
}

type watchRun struct {
	started  time.Time
	timeout  time.Duration // after which the server ends it
	events   int
	differed bool  // the list before it differed from the log
	err      error // that ended it
}

func (w *watching) ended(ctx context.Context, run watchRun) (state, error) {
	eof, lasted, nearTimeout := errors.Is(run.err, io.EOF), time.Since(run.started), run.timeout*9/10
	w.lately.timedOut = eof && lasted >= nearTimeout
	w.lately.ended = w.lately.ended || eof && !w.lately.timedOut
	if w.empty.compared && lasted < run.timeout { // the watch may have ended before the list
		w.empty.reset()
	}
	if run.events > 0 || lasted > time.Second {
		w.relists = 0
	}
	empty := run.events == 0 || w.empty.compared
	switch {
	case errors.Is(run.err, errDeletion):
		return w.enter(&expired{w, RelistDeletion}, run.err.Error()), nil
	case apiclient.IsGone(run.err):
		return w.enter(&expired{w, RelistExpired},
			fmt.Sprintf("410 at resourceVersion %s: %s", w.cursor, apiclient.Reason(run.err))), nil
	case eof && empty && lasted >= min(nearTimeout, longEnough):
		return w.endedEmpty(ctx, run.differed)
	case eof && lasted >= nearTimeout:
		w.client, w.bookmarks = w.shared, w.bookmarked
		return w.enter(w, "the watch ran into its timeout"), nil
	case eof && (run.events > 0 || lasted > time.Second):
		w.observer.WatchRestarted(w.ID())
		return w.enter(w.verify(w), "the server ended the watch"), nil
	}
	w.observer.WatchRestarted(w.ID())
	err := w.failed(run.err, "watch %s from resourceVersion %s", w.ID(), w.cursor)
	return w.enter(w.verify(w), "the watch failed: "+apiclient.Reason(run.err)), err
}

// readEvents handles the events of the connection until it ends, and returns how many came.
func (w *watching) readEvents(ctx context.Context, conn *apiclient.Watch, comparison *comparison) (n int, err error) {
	defer comparison.stop()
	for {
		e, err := w.next(conn, comparison)
		w.upToDate = conn.Current()
		if err != nil {
			return n, err
		}
		w.since = e.Since
		if !w.isRepeated(&e) {
			n++
			w.empty.reset()
		}
		if err = w.handle(ctx, e); err == nil {
			err = w.finishCatchUp(ctx)
		}
		if err != nil {
			return n, err
		}
	}
}

// next waits for the next event. Meanwhile others may use the stream, unless it catches up with a list. It then knows a state
// that the log has at no position.
func (w *watching) next(conn *apiclient.Watch, c *comparison) (apiclient.Event, error) {
	if w.catchUp != nil {
		return conn.Next()
	}
	w.since = time.Time{} // what others emit during the wait is no event
	w.release()
	w.waitsOn.Store(w.connection)
	e, err := conn.Next()
	w.waitsOn.Store(nil)
	c.interrupt()
	w.turn <- struct{}{}
	if c != nil && err == nil {
		c.lastEvent = time.Now()
	}
	return e, err
}

func (w *watching) handle(ctx context.Context, e apiclient.Event) error {
	if fault.Is[*apiclient.NotEventError](e.Err) {
		return e.Err
	}
	if e.Err != nil {
		return w.sendUnreadable(ctx, &e, e.Err)
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		if err := w.handleObject(ctx, e); err != nil {
			return err
		}
	case "BOOKMARK":
		version, _, err := e.Bookmark()
		if err != nil {
			return w.sendMalformed(ctx, e.Line, err)
		}
		w.bookmarks, w.bookmarked = true, true
		if err := w.confirm(ctx, w.watched(version)); err != nil {
			return err
		}
	case "ERROR":
		return e.Status()
	default:
		if w.unknown != e.Type {
			w.unknown = e.Type
			w.log.Warn("events of an unknown type are ignored", "type", e.Type)
		}
	}
	w.freshTries = 0
	w.resetBackoff()
	return nil
}

// isRepeated reports whether the event was delivered before, as a proxy may do: it is older than the cursor. A deletion of a
// known object is never a repetition, whatever its version is.
func (w *watching) isRepeated(e *apiclient.Event) bool {
	if e.Type == "DELETED" && w.known.Compare(e.Object.Key(), e.Object.UID, e.Object.Version) == known.Same {
		return false
	}
	return e.Err == nil && (w.isRepeatedDelete(e) || e.Type != "BOOKMARK" && e.Object.Version != "" &&
		e.Object.Version.Compare(w.cursor) < 0)
}

// handleObject emits the change that an event reports, unless the log already has it or something newer. If the log has
// another object under the key, that object's deletion comes first. At the cursor itself a foreign store may have written other
// keys.
func (w *watching) handleObject(ctx context.Context, e apiclient.Event) error {
	o := e.Object
	if err := o.Check(); errors.Is(err, apiclient.ErrUnsupported) && w.known.Len() == 0 {
		return err // no object of the resource was ever usable
	} else if errors.Is(err, apiclient.ErrUnsupported) && w.unversioned.repeats(e.Line) {
		return err
	} else if err != nil {
		return w.sendUnreadable(ctx, &e, err)
	}
	w.participant.Wrote(o.Version)
	d := w.known.Compare(o.Key(), o.UID, o.Version)
	switch {
	case e.Type == "DELETED":
		return w.handleDeleted(ctx, &o, d)
	case e.Type == "MODIFIED" && d == known.Same && w.catchUp == nil: // else a page had it, perhaps of another API server
		if err := w.checkMoved(ctx, o); err != nil {
			return err
		}
	}
	if o.Version.Compare(w.cursor) < 0 || w.endings.has(&o) {
		return nil
	}
	if d == known.Same || d == known.Older || d == known.Predecessor {
		return w.advance(ctx, w.watched(o.Version))
	}
	if err := o.Prepare(w.options.Redactor, &w.stream.Resource); err != nil {
		return w.sendMalformed(ctx, e.Line, err)
	}
	op := change.Update
	if !d.Known() {
		op = change.Create
	}
	if d == known.Successor {
		if err := w.sendDelete(ctx, o.Key(), w.catchUp.gapID(), move{}); err != nil {
			return err
		}
	}
	if mayHaveCRD(w.stream.Resource) && !w.lately.builtIn {
		w.lately.record(&w.stream.Resource, &o)
	}
	return w.send(ctx, w.newChange(op, &o), w.watched(o.Version))
}

// errDeletion reports a deletion that does not show which object was deleted.
var errDeletion = errors.New("a deletion can't be read")

// sendUnreadable emits an event that can't be read. If it may be the deletion of an object that the log has, the watch ends, and
// what the API server has decides.
func (w *watching) sendUnreadable(ctx context.Context, e *apiclient.Event, why error) error {
	if err := w.sendMalformed(ctx, e.Line, why); err != nil || e.Type != "DELETED" {
		return err
	}
	if _, logged := w.known.Get(e.Object.Key()); e.Err == nil && e.Object.Name != "" && !logged {
		return nil
	}
	return errDeletion
}

// handleDeleted emits a deletion, unless the log already has it or something newer, as another object under the name. The version
// may be that which the object had (unmoved.go).
func (w *watching) handleDeleted(ctx context.Context, o *apiclient.Object, d known.Difference) error {
	switch repeated := o.Version.Compare(w.cursor) < 0; {
	case d == known.Same:
		w.endings.add(o)
		return w.sendDelete(ctx, o.Key(), "", move{})
	case d == known.Older && !w.selects() || d == known.Successor && !repeated:
		return fmt.Errorf("%w: its resourceVersion %s contradicts the log", errDeletion, o.Version)
	case repeated:
		return nil
	}
	version := w.positionAfter(change.Delete, o.Version)
	if d != known.Newer {
		return w.advance(ctx, w.watched(version))
	}
	return w.send(ctx, w.newChange(change.Delete, o), w.watched(version))
}

// finishCatchUp finishes an inconsistent list once the watch has passed its end.
func (w *watching) finishCatchUp(ctx context.Context) error {
	l := w.catchUp
	if l == nil || w.cursor.Compare(l.until) < 0 {
		return nil
	}
	if err := l.finish(ctx, w.cursor); err != nil {
		return err
	}
	w.catchUp = nil
	w.observer.StreamState(w.ID(), w.name(), nil)
	return nil
}

// watched returns the move of an event. While the stream catches up with an inconsistent list, the log can't go on from
// there, and only the cursor moves.
func (w *watching) watched(version change.ResourceVersion) move {
	if w.catchUp != nil && version != "" {
		return move{cursor: version}
	}
	return to(version)
}
