package live

import (
	"cmp"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// Stream is a stream, as this process sees it. It outlives failed sessions of its slot, until another replica has the slot.
type Stream struct {
	Session
	Slot          int
	Ended         bool // the log has the stream's end
	Confirmed     time.Time
	CompleteUntil time.Time                             // the log is complete up to this time, as far as this process knows
	Objects       int64                                 // number of known objects; -1: the stream was never read
	Rate          float64                               // changes per second, over about the last minute
	Controls      map[change.ControlType]change.Control // last record of each type that a status shows
	Proven        time.Time                             // when it was last compared with the API server, or zero
	Differing     int                                   // number of objects that differed then
	Differs       *Problem                              // the last proof found differences
}

// Session is the part of a stream's state that only exists while a session works on it.
type Session struct {
	Added          bool // a session works on it
	State          change.StreamState
	Since          time.Time // when it entered the state
	Settled        bool      // it has had a position or an error
	Positioned     bool      // it has had a position
	Recovering     *Problem  // its running recovery, or nil. A recovery is no error
	Problem        *Problem  // remains until the stream is current again
	Refused        bool      // the API server or the sink refuses it, or it can't be exported
	RemovalUnknown *Problem
	Position       change.Position
}

// Recovery is the progress of a recovery, or the sum of several.
type Recovery struct{ Done, Revisions, Requests int }

// Recovers is the cause of a problem that is a recovery.
const Recovers = "recovers what its watch missed"

// Plus returns the sum of two.
func (r Recovery) Plus(s Recovery) Recovery {
	return Recovery{r.Done + s.Done, r.Revisions + s.Revisions, r.Requests + s.Requests}
}

func (r Recovery) String() string {
	return fmt.Sprintf("%s: %d of %d revisions accounted for, %d requests", Recovers, r.Done, r.Revisions, r.Requests)
}

// StateNew is the state of a stream that is not started yet.
const StateNew change.StreamState = "new"

// notAssigned is the slot of streams that the start found in the checkpoint, until replicas share the slots.
const notAssigned = -2

type stream struct {
	Stream
	seen   time.Time              // when this process learned of it
	left   time.Time              // when it stopped following its watch
	known  func() int64           // returns the number of its objects, or nil if it was never read
	relist reflector.RelistReason // why its last watch could not resume
	rate   average
	first
}

// stream returns a stream, which it creates if it is new. The caller holds the lock.
func (e *Exporter) stream(id change.StreamID) *stream {
	s := e.streams[id]
	if s == nil {
		s = &stream{Stream: Stream{Session: Session{State: StateNew}, Slot: -1, Objects: -1}, seen: e.Now()}
		e.streams[id] = s
	}
	return s
}

// shown returns the stream for a Snapshot. read is when the first record was read that is not yet durable, or zero.
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

// follows reports whether what the watch delivers reaches the log.
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

// isCurrent reports whether the log follows the stream's resource, or has the deletion of all its objects.
func isCurrent(state change.StreamState) bool {
	return state == change.StateWatching || state == change.StateCatchingUp || state == change.StateAbsent
}

// StreamsFound adds the streams of the checkpoint, before the start waits for the sink. Until it is over their slots are unknown,
// and they fall behind.
func (e *Exporter) StreamsFound(positions []change.Position) { e.SlotStreams(notAssigned, positions) }

// SlotStreams sets the position of each stream of a slot that this process works on, before a session reads them. A stream
// without records in the log has no time. Without positions, the slot is another replica's.
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

// forget drops the streams of a slot, except those in keep.
func (e *Exporter) forget(slot int, keep map[change.StreamID]bool) {
	for id, s := range e.streams {
		if s.Slot == slot && !keep[id] {
			delete(e.streams, id)
		}
	}
}

// StreamAdded adds a stream of a slot that this process owns, and a function that returns how many of its objects are known. The
// function is nil if the stream is not read.
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

// StreamsStopped reports that no session reads the slot's streams any more. What was read and is not in the log will be read
// again.
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
			s.known = func() int64 { return n } // so that the session's memory is not retained
		}
	}
}

// StreamState reports a stream's state, and its error or nil.
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
		s.Recovering = nil
	}
	switch {
	case err != nil:
		s.Problem = e.problem(s.Problem, err)
		s.Problem.Code = cmp.Or(s.Problem.Code, string(state))
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
	if isCurrent(state) && !s.Positioned {
		s.Positioned, e.positioned = true, e.Now()
	}
	s.Settled = s.Settled || isCurrent(state) || err != nil
}

func (e *Exporter) countError(state change.StreamState, err error) {
	switch {
	case state == change.StatePaused:
	case state == change.StateRefused && reflector.StatusCode(err) == 0:
		e.Count.Error(dependency.Sink)
	default:
		e.Count.Error(StageSource)
	}
}

// RecoveryProgress reports how many of the revisions of a gap are accounted for.
func (e *Exporter) RecoveryProgress(id change.StreamID, done, total, requests int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, r := e.stream(id), Recovery{done, total, requests}
	s.Recovering = &Problem{Text: r.String(), Cause: Recovers, Recovery: r, Since: s.Since}
}

// RemovalUnknown reports why it is unknown whether a stream's resource was removed, or nil when it is known. If the stream is not
// read, only this is shown of it. It returns whether this is new.
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
