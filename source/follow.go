package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"kubecdc/change"
)

// watch reads events from the cursor until the connection ends.
func (s *Stream) watch(ctx context.Context) (State, error) {
	if err := s.caughtUp(ctx); err != nil {
		return s.state, err
	}
	seconds := watchSeconds(s.options, rand.Float64())
	started, events := time.Now(), 0
	w, err := s.client.watch(ctx, s.stream, s.options.MetadataOnly, s.cursor, seconds)
	if err == nil {
		defer w.close()
		events, err = s.events(ctx, w)
	}
	lasted := time.Since(started)
	switch {
	case isGone(err):
		return s.enter(StateExpired, fmt.Sprintf("410 at resourceVersion %s: %s", s.cursor, reasonText(err))), nil
	case errors.Is(err, io.EOF) && lasted >= time.Duration(seconds)*time.Second*9/10:
		s.client = s.shared
		if events == 0 { // a server that has seen no change since its start sends no bookmark; a consistent read wakes it
			return s.enter(StateVerifying, "the watch ran into its timeout and said nothing"), nil
		}
		return s.enter(StateWatching, "the watch ran into its timeout"), nil
	case errors.Is(err, io.EOF) && (events > 0 || lasted > time.Second):
		s.observer.Reconnected(s.ID(), "the server ended the watch")
		return s.enter(StateVerifying, "the server ended the watch"), nil
	}
	s.observer.Reconnected(s.ID(), "the connection was lost")
	return s.enter(StateVerifying, "the watch failed: "+reasonText(err)), fmt.Errorf("watch %s from resourceVersion %s: %w", s.ID(), s.cursor, err)
}

// events handles what the watch delivers, until it ends.
func (s *Stream) events(ctx context.Context, w *watcher) (n int, err error) {
	for ; ; n++ {
		e, err := w.next()
		if err == nil {
			err = s.handle(ctx, e)
		}
		if err == nil {
			err = s.caughtUp(ctx)
		}
		if err != nil {
			return n, err
		}
	}
}

// expired answers a 410: first by a fresh connection, which may reach another API server that still holds the
// position, then by a list.
func (s *Stream) expired() State {
	if s.fresh < s.options.FreshTries && s.renewClient() {
		s.fresh++
		return s.enter(StateWatching, "410: the same position on a fresh connection")
	}
	s.fresh = 0
	s.log.Warn("relist", "reason", s.reason, "position", s.position)
	s.observer.Reconnected(s.ID(), "relist: 410")
	if s.listing != nil { // while it caught up with a list
		s.listing.restart()
		return s.enter(StateListing, "the list begins again: "+s.reason)
	}
	if s.gap == nil {
		s.gap = &change.Gap{ID: change.GapID(s.ID(), s.position), From: s.position}
	}
	if s.options.Backfill != nil {
		return s.enter(StateBackfilling, s.reason)
	}
	return s.enter(StateListing, "relist: "+s.reason)
}

// renewClient makes the next requests on connections of their own, until a watch has run its whole time there.
func (s *Stream) renewClient() bool {
	client, err := s.client.fresh()
	if err != nil {
		s.log.Warn("no fresh connection can be made", "error", err)
		return false
	}
	s.client = client
	return true
}

// handle takes one watch event.
func (s *Stream) handle(ctx context.Context, e event) error {
	if e.err != nil {
		return s.sendMalformed(ctx, e.line, e.err)
	}
	switch e.kind {
	case "ADDED", "MODIFIED", "DELETED":
		if err := s.handleObject(ctx, e); err != nil {
			return err
		}
	case "BOOKMARK":
		b, err := e.bookmark()
		if err != nil {
			return s.sendMalformed(ctx, e.line, err)
		}
		if err := s.confirm(ctx, b.version); err != nil {
			return err
		}
	case "ERROR":
		return e.statusOf()
	default:
		s.log.Warn("an event of an unknown type is passed over", "type", e.kind)
	}
	s.alive()
	return nil
}

// alive notes that the server delivers: retries start small again.
func (s *Stream) alive() {
	s.fresh = 0
	s.retry.Reset()
	s.failures = 0
}

// handleObject sends the change that an event tells of, unless the log has it or something newer already.
func (s *Stream) handleObject(ctx context.Context, e event) error {
	o := e.object
	if err := o.check(true); err != nil {
		return s.sendMalformed(ctx, e.line, err)
	}
	old := s.index.compare(&o)
	if old.exists && !old.older {
		return s.advance(ctx, o.version)
	}
	switch {
	case e.kind == "DELETED" && !old.exists:
		return s.advance(ctx, o.version)
	case e.kind == "DELETED" && old.same:
		return s.send(ctx, s.change(change.Delete, &o), o.version)
	case e.kind == "DELETED": // of another object than the one under this name: that one is newer
		return s.advance(ctx, o.version)
	}
	o.raw = o.withType(&s.stream.Resource)
	return s.sendObject(ctx, &o, old, o.version)
}

// confirm takes a bookmark. One that does not move the position is handed on too: it says that the stream is still
// complete now, which is more than it said before.
func (s *Stream) confirm(ctx context.Context, version string) error {
	if change.CompareVersions(version, s.cursor) < 0 {
		return nil
	}
	return s.emit(ctx, Item{Version: version})
}

// advance moves the position without a change.
func (s *Stream) advance(ctx context.Context, version string) error {
	if change.CompareVersions(version, s.cursor) <= 0 {
		return nil
	}
	return s.emit(ctx, Item{Version: version})
}
