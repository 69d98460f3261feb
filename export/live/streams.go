package live

import (
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// Stream is a stream, as this process sees it. It stays over failed sessions of its slot, until the slot is another replica's.
type Stream struct {
	Session
	Slot          int
	Ended         bool // there, the log has its end
	Confirmed     time.Time
	CompleteUntil time.Time                             // the log has the stream up to then, as far as this process can tell
	Objects       int64                                 // that are known; -1: the stream was never read
	Rate          float64                               // changes a second, over about the last minute
	Controls      map[change.ControlType]change.Control // the last one of each type that a status shows
	Proven        time.Time                             // when it was last compared with the API server; zero: never
	Differing     int                                   // objects that differed then
	Differs       *Problem                              // the last proof found that objects differ
}

// Session is what is known of a stream only while a session works on it.
type Session struct {
	Added          bool // a session works on it
	State          change.StreamState
	Since          time.Time // when it entered the state
	Settled        bool      // it has had a position or an error
	Recovering     string    // how far its recovery is; empty: there is none, or it has just begun
	Problem        *Problem  // stays until the stream is current again
	Refused        bool      // the problem is that the API server or the sink refuses it, or that it can't be exported
	RemovalUnknown *Problem
	Position       change.Position
}

// StateNew is the state of a stream that is not started yet.
const StateNew change.StreamState = "new"

// notAssigned is the slot of streams that the start found in the checkpoint, until replicas share the slots.
const notAssigned = -2

type stream struct {
	Stream
	seen   time.Time              // when this process learned of it
	left   time.Time              // when it stopped to follow its watch
	known  func() int64           // its objects; nil: it was never read
	relist reflector.RelistReason // why its last watch could not resume
	rate   average
	first
}

// stream returns a stream, which may be new. The caller holds the lock.
func (e *Exporter) stream(id change.StreamID) *stream {
	s := e.streams[id]
	if s == nil {
		s = &stream{Stream: Stream{Session: Session{State: StateNew}, Slot: -1, Objects: -1}, seen: e.Now()}
		e.streams[id] = s
	}
	return s
}

// shown is what a Snapshot has of the stream. Read is when its first record was read that is not durable yet; zero: there is none.
func (s *stream) shown(now, read time.Time) Stream {
	shown := s.Stream
	shown.CompleteUntil, shown.Rate = s.completeUntil(now, read), s.rate.now(now)
	if shown.Confirmed.IsZero() {
		shown.Confirmed = s.seen
	}
	if s.known != nil {
		shown.Objects = s.known()
	}
	return shown
}

// follows reports that what the watch delivers reaches the log.
func (s *stream) follows() bool {
	return s.State == change.StateWatching || s.State == change.StateAbsent
}

func (s *stream) completeUntil(now, read time.Time) time.Time {
	until := now
	if !s.follows() {
		until = latest(s.Confirmed, s.left)
	}
	if until.IsZero() {
		until = s.seen
	}
	if !read.IsZero() && read.Before(until) {
		return read
	}
	return until
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isCurrent reports that the log follows the stream's resource, or has the deletion of all its objects.
func isCurrent(state change.StreamState) bool {
	return state == change.StateWatching || state == change.StateCatchingUp || state == change.StateAbsent
}

// StreamsFound gives the streams of the checkpoint, before the start waits for the sink. Until it is over nobody knows whose they are, and
// they fall behind.
func (e *Exporter) StreamsFound(positions []change.Position) { e.SlotStreams(notAssigned, positions) }

// SlotStreams gives the position of each stream of a slot that this process works on, before a session reads them; without a time, if
// the log has nothing of the stream. None: the slot is another replica's.
func (e *Exporter) SlotStreams(slot int, positions []change.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	mine := map[change.StreamID]bool{}
	for _, p := range positions {
		if p.Ended != "" {
			continue
		}
		mine[p.Stream] = true
		if e.place(slot, p); slot != notAssigned {
			e.Count.StreamKnown(p.Stream)
		}
	}
	e.forget(slot, mine)
}

func (e *Exporter) place(slot int, p change.Position) *stream {
	s := e.stream(p.Stream)
	s.Slot, s.Confirmed = slot, latest(s.Confirmed, p.Time)
	return s
}

// forget drops the streams of a slot but those to keep.
func (e *Exporter) forget(slot int, keep map[change.StreamID]bool) {
	for id, s := range e.streams {
		if s.Slot == slot && !keep[id] {
			delete(e.streams, id)
		}
	}
}

// StreamAdded gives a stream of a slot that this process owns, and a function that returns how many of its objects are known; nil: the
// stream is not read.
func (e *Exporter) StreamAdded(slot int, id change.StreamID, known func() int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stream(id)
	if s.Slot, s.Ended = slot, false; !s.Added {
		s.Added, s.Since = true, e.Now()
	}
	if known != nil {
		s.known = known
	}
	e.Count.StreamKnown(id)
	e.beginning.begin(s)
}

// StreamsStopped reports that a session reads no stream of the slot any more. What it has read and the log has not will be read again.
func (e *Exporter) StreamsStopped(slot int) {
	e.mu.Lock()
	defer e.unlock()
	now, read := e.Now(), e.slot(slot).read().Streams
	for id, s := range e.streams {
		if s.Slot != slot {
			continue
		}
		e.beginning.end(s, false)
		s.left = s.completeUntil(now, read[id])
		if s.Session = (Session{State: StateNew}); s.known != nil {
			n := s.known()
			s.known = func() int64 { return n } // the session's memory is not held
		}
	}
}

// StreamState reports a stream's state, and its error, or nil.
func (e *Exporter) StreamState(id change.StreamID, state change.StreamState, err error) {
	e.mu.Lock()
	defer e.unlock()
	s := e.stream(id)
	followed, resumed := s.follows(), s.State == change.StatePaused && state != change.StatePaused
	if s.Added = true; s.State != state {
		s.State, s.Since = state, e.Now()
	}
	if followed && !s.follows() {
		s.left = e.Now()
	}
	if state != change.StateBackfilling && state != change.StateWaiting && state != change.StateRefused {
		s.Recovering = ""
	}
	switch {
	case err != nil:
		s.Problem = e.problem(s.Problem, err)
		s.Refused = state == change.StateRefused || state == change.StateUnsupported
		e.countError(state, err)
		e.beginning.end(s, false)
	case isCurrent(state), resumed:
		e.over("stream", id, s.Problem)
		s.Problem, s.Refused = nil, false
		if isCurrent(state) {
			e.beginning.end(s, true)
		}
	}
	s.Settled = s.Settled || isCurrent(state) || err != nil
}

func (e *Exporter) countError(state change.StreamState, err error) {
	switch {
	case state == change.StatePaused:
	case state == change.StateRefused && !reflector.IsRefused(err):
		e.Count.Error(dependency.Sink)
	default:
		e.Count.Error(StageSource)
	}
}

// RecoveryProgress reports how many of the revisions of a gap are accounted for.
func (e *Exporter) RecoveryProgress(id change.StreamID, done, total, requests int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stream(id).Recovering = fmt.Sprintf("recovers what its watch missed: %d of %d revisions accounted for, %d requests", done, total, requests)
}

// RemovalUnknown reports why it is unknown whether a stream's resource was removed; nil when it is known. The stream may be one that is
// not read: then only this is shown of it. It returns whether this is new.
func (e *Exporter) RemovalUnknown(slot int, id change.StreamID, err error) (isNew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.streams[id]
	switch {
	case s == nil && err == nil:
		return false
	case s == nil:
		s = e.stream(id)
		s.Slot, s.Ended = slot, true
	}
	before := s.RemovalUnknown
	if err == nil {
		s.RemovalUnknown = nil
		return before != nil
	}
	s.RemovalUnknown = e.problem(before, err)
	return before == nil || before.Text != s.RemovalUnknown.Text
}

// Relisted reports that a watch can't resume, and that its collection is listed.
func (e *Exporter) Relisted(id change.StreamID, reason reflector.RelistReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stream(id).relist = reason
	e.Count.Relisted(reason)
}

// WatchRestarted reports a watch that was resumed from its position.
func (e *Exporter) WatchRestarted(change.StreamID) { e.Count.WatchRestarted() }
