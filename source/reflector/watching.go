package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// watching reads events from the cursor until the connection ends. One value lasts over all connections, until the stream
// lists or recovers.
type watching struct {
	*Reflector
	catchUp    *listing // an inconsistent list that the watch has to pass the end of; nil: none
	silence    silence
	fresh      int  // fresh connections tried since the last event
	bookmarked bool // a bookmark came on this connection
}

// watch follows the collection from the cursor. list is inconsistent and must be caught up with; nil: there is none.
func (s *Reflector) watch(list *listing) *watching { return &watching{Reflector: s, catchUp: list} }

func (s *watching) name() State {
	if s.catchUp != nil {
		return StateCatchingUp
	}
	return StateWatching
}

func (s *watching) step(ctx context.Context) (state, error) {
	if err := s.caughtUp(ctx); err != nil {
		return s, err
	}
	seconds := watchSeconds(s.options, s.bookmarks, rand.Float64())
	started, events := time.Now(), 0
	s.bookmarked = false
	suspected := s.silence.differs
	w, err := s.client.Watch(ctx, s.stream, s.options.MetadataOnly, s.cursor, seconds)
	if err == nil {
		defer w.Close()
		if err = s.answered(ctx); err == nil {
			events, err = s.events(ctx, w, s.look(ctx, time.Duration(seconds)*time.Second))
		}
	}
	lasted, whole := time.Since(started), time.Duration(seconds)*time.Second*9/10
	if s.silence.compared && lasted < time.Duration(seconds)*time.Second { // it may have ended before the list
		s.silence.broken()
	}
	quiet := events == 0 || s.silence.compared
	if events > 0 || lasted > time.Second {
		s.relists = 0
	}
	switch {
	case apiclient.IsGone(err):
		return s.enter(&expired{s}, fmt.Sprintf("410 at resourceVersion %s: %s", s.cursor, apiclient.Reason(err))), nil
	case errors.Is(err, io.EOF) && quiet && lasted >= min(whole, longSilence):
		return s.silent(ctx, suspected)
	case errors.Is(err, io.EOF) && lasted >= whole:
		s.client, s.bookmarks = s.shared, s.bookmarked
		return s.enter(s, "the watch ran into its timeout"), nil
	case errors.Is(err, io.EOF) && (events > 0 || lasted > time.Second):
		s.observer.WatchRestarted(s.ID())
		return s.enter(s.verify(s), "the server ended the watch"), nil
	}
	s.observer.WatchRestarted(s.ID())
	return s.enter(s.verify(s), "the watch failed: "+apiclient.Reason(err)), fmt.Errorf("watch %s from resourceVersion %s: %w", s.ID(), s.cursor, err)
}

// events handles the events of the watch until it ends.
func (s *watching) events(ctx context.Context, w *apiclient.Watch, look *look) (n int, err error) {
	defer look.stop()
	for {
		e, err := w.Next()
		if err != nil {
			return n, err
		}
		err = look.aside(func() error {
			if !s.repeats(&e) {
				n++
				s.silence.broken()
			}
			if err := s.handle(ctx, e); err != nil {
				return err
			}
			return s.caughtUp(ctx)
		})
		if err != nil {
			return n, err
		}
	}
}

// expired answers a 410, first by a fresh connection, which may reach another API server that still holds the
// position, then by a list.
type expired struct{ *watching }

func (s *expired) name() State { return StateExpired }

func (s *expired) step(ctx context.Context) (state, error) {
	tries := s.options.FreshTries
	s.compacted = s.compacted || s.silence.watches > 0
	if s.silence.differs { // each takes a whole watch
		tries = min(tries, 1)
	}
	if s.fresh < tries && s.renewClient() {
		s.fresh++
		return s.enter(s.watching, "the same position on a fresh connection: "+s.reason), nil
	}
	s.restrain(ctx)
	s.log.Warn("relist", "reason", s.reason, "position", s.position)
	reason := RelistExpired
	if s.silence.differs {
		reason = RelistSilent
	}
	s.observer.Relisted(s.ID(), reason)
	if l := s.catchUp; l != nil {
		l.restart()
		return s.enter(l, "the list begins again: "+s.reason), nil
	}
	gap := s.gapFrom(s.position)
	if s.options.Recovery != nil {
		return s.enter(&recovering{s.Reflector, gap}, s.reason), nil
	}
	return s.enter(s.list(gap), "relist: "+s.reason), nil
}

// restrain waits, longer each time, where the watch after a relist is told 410 again at once: no list helps against that,
// and the API server is not to be asked as fast as it answers.
func (s *Reflector) restrain(ctx context.Context) {
	if s.relists++; s.relists == 1 {
		return
	}
	delay := min(200*time.Millisecond<<min(s.relists-2, 20), s.options.MaxBackoff)
	s.log.Warn("the watch expired again at once", "times", s.relists, "relist in", delay)
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
}

// renewClient makes the next requests on connections of their own, until a watch has run its whole time there.
func (s *Reflector) renewClient() bool {
	client, err := s.client.Fresh()
	if err != nil {
		s.log.Warn("no fresh connection can be made", "error", err)
		return false
	}
	s.client = client
	return true
}

// handle takes one watch event.
func (s *watching) handle(ctx context.Context, e apiclient.Event) error {
	if e.Err != nil {
		return s.sendMalformed(ctx, e.Line, e.Err)
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		if err := s.handleObject(ctx, e); err != nil {
			return err
		}
	case "BOOKMARK":
		b, err := e.Bookmark()
		if err != nil {
			return s.sendMalformed(ctx, e.Line, err)
		}
		s.bookmarks, s.bookmarked = true, true
		if err := s.confirm(ctx, s.watched(b.Version)); err != nil {
			return err
		}
	case "ERROR":
		return e.Status()
	default:
		s.log.Warn("an event of an unknown type is passed over", "type", e.Type)
	}
	s.fresh = 0
	s.alive()
	return nil
}

// alive notes that the server delivers: retries start small again.
func (s *Reflector) alive() {
	s.retry.Reset()
	if s.failures > 0 {
		s.failures, s.warned = 0, warnings{}
	}
}

// handleObject sends the change that an event tells of, unless the log has it or something newer already.
func (s *watching) handleObject(ctx context.Context, e apiclient.Event) error {
	o := e.Object
	if err := o.Check(); errors.Is(err, apiclient.ErrUnsupported) && s.known.Len() == 0 {
		return err // not one object of the resource was ever fit
	} else if err != nil {
		return s.sendMalformed(ctx, e.Line, err)
	}
	d := s.known.Compare(o.Key(), o.UID, o.Version)
	if e.Type == "DELETED" {
		return s.handleDeleted(ctx, &o, d)
	}
	if d == known.Same || d == known.Older || d == known.Predecessor {
		return s.advance(ctx, s.watched(o.Version))
	}
	if err := o.Prepare(s.options.Redactor, &s.stream.Resource); err != nil {
		return s.sendMalformed(ctx, e.Line, err)
	}
	return s.sendObject(ctx, &o, d, s.watched(o.Version))
}

// handleDeleted sends a deletion, unless the log has it, or something newer: another object under the name, say.
func (s *watching) handleDeleted(ctx context.Context, o *apiclient.Object, d known.Difference) error {
	version := s.passed(change.Delete, o.Version)
	if d != known.Newer && d != known.Lost {
		return s.advance(ctx, s.watched(version))
	}
	return s.send(ctx, s.change(change.Delete, o), s.watched(version))
}

// caughtUp finishes an inconsistent list once the watch has passed its end.
func (s *watching) caughtUp(ctx context.Context) error {
	l := s.catchUp
	if l == nil || s.cursor.Compare(l.until) < 0 {
		return nil
	}
	if err := l.finish(ctx, s.cursor); err != nil {
		return err
	}
	s.catchUp = nil
	s.observer.StreamState(s.ID(), s.name(), s.reason, nil)
	return nil
}

// watched is the progress of what the watch tells. While the stream catches up with an inconsistent list, the log can't go on
// from there, and only the cursor moves.
func (s *watching) watched(version change.ResourceVersion) progress {
	if s.catchUp != nil && version != "" {
		return progress{cursor: version}
	}
	return to(version)
}

// confirm takes a bookmark. One that does not move the position is handed on too: it says that the stream is still
// complete now, which is more than it said before.
func (s *Reflector) confirm(ctx context.Context, p progress) error {
	if p.cursor.Compare(s.cursor) < 0 {
		return nil
	}
	return s.emit(ctx, Item{}, p)
}

// advance moves the position without a change.
func (s *Reflector) advance(ctx context.Context, p progress) error {
	if p.cursor.Compare(s.cursor) <= 0 {
		return nil
	}
	return s.emit(ctx, Item{}, p)
}
