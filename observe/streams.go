package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// streamGauges computes the gauges of the streams when they are scraped, so that a lag grows while nothing happens. A stream stays
// over failed sessions of its slot, until the slot is another replica's.
type streamGauges struct {
	now   func() time.Time
	since func() map[change.StreamID]time.Time // of the first record that is not durable yet

	state, lag, confirmed, objects, refused, proof, differences, streams *prometheus.Desc

	mu  sync.Mutex
	all map[change.StreamID]*streamGauge
}

type streamGauge struct {
	slot      int
	state     change.StreamState
	seen      time.Time // when this process learned of it
	confirmed time.Time // the log is complete up to then
	left      time.Time // when it stopped to follow its watch
	ended     bool
	refused   bool
	known     func() int64 // its objects; nil: it was never read
	relist    reflector.RelistReason
	proven    time.Time
	differ    int
}

func newStreamGauges(r *registry, since func() map[change.StreamID]time.Time) *streamGauges {
	g := &streamGauges{now: time.Now, since: since, all: map[change.StreamID]*streamGauge{}}
	g.streams = r.scraped("streams", "Streams that this replica works on, by state.", "state")
	g.state = r.scraped("stream_state", "1 for the current state of the stream.", "stream", "state")
	g.confirmed = r.scraped("stream_confirmed_timestamp_seconds",
		"Up to when the stream is known to be complete in the log. A quiet stream is confirmed by bookmarks, about once a minute.", "stream")
	g.lag = r.scraped("stream_lag_seconds",
		"How far the log is behind: age of the oldest change that was read and is not durable, or the time since the stream followed its watch; else 0.",
		"stream")
	g.objects = r.scraped("stream_objects", "Objects of the stream that the exporter knows.", "stream")
	g.refused = r.scraped("stream_refused", "1 while the API server or the sink refuses the stream, or it can't be exported. /readyz has the reason.", "stream")
	g.proof = r.scraped("proof_timestamp_seconds", "When the stream's objects were last compared with the API server.", "stream")
	g.differences = r.scraped("proof_differences", "Objects that differed from the API server in the stream's last proof.", "stream")
	r.MustRegister(&scraped{[]*prometheus.Desc{g.streams, g.state, g.confirmed, g.lag, g.objects, g.refused, g.proof, g.differences}, g.collect})
	return g
}

// of returns a stream, which may be new. The caller holds the lock.
func (g *streamGauges) of(stream change.StreamID) *streamGauge {
	s := g.all[stream]
	if s == nil {
		s = &streamGauge{slot: -1, state: stateNew, seen: g.now()}
		g.all[stream] = s
	}
	return s
}

func (g *streamGauges) update(stream change.StreamID, with func(s *streamGauge)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	with(g.of(stream))
}

// follows reports that what the watch delivers reaches the log.
func (s *streamGauge) follows() bool {
	return s.state == change.StateWatching || s.state == change.StateAbsent
}

// completeUntil returns up to when the log has the stream, as far as this process can tell.
func (s *streamGauge) completeUntil(now time.Time, read time.Time) time.Time {
	until := now
	if !s.follows() {
		until = latest(s.confirmed, s.left)
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

func (g *streamGauges) collect(emit func(*prometheus.Desc, float64, ...string)) {
	since := g.since()
	g.mu.Lock()
	defer g.mu.Unlock()
	now, counts := g.now(), map[change.StreamState]int{stateNew: 0}
	for _, state := range change.StreamStates {
		counts[state] = 0
	}
	for id, s := range g.all {
		if s.ended && s.state == stateNew { // it was only found in the checkpoint
			continue
		}
		stream := string(id)
		counts[s.state]++
		emit(g.state, 1, stream, string(s.state))
		if s.ended {
			continue
		}
		emit(g.confirmed, seconds(latest(s.confirmed, s.seenIfUnconfirmed())), stream)
		emit(g.lag, max(now.Sub(s.completeUntil(now, since[id])).Seconds(), 0), stream)
		emit(g.refused, boolValue(s.refused), stream)
		if s.known != nil {
			emit(g.objects, float64(s.known()), stream)
		}
		if !s.proven.IsZero() {
			emit(g.proof, seconds(s.proven), stream)
			emit(g.differences, float64(s.differ), stream)
		}
	}
	for state, n := range counts {
		emit(g.streams, float64(n), string(state))
	}
}

// seenIfUnconfirmed is the time from which a stream counts that was never complete.
func (s *streamGauge) seenIfUnconfirmed() time.Time {
	if s.confirmed.IsZero() {
		return s.seen
	}
	return s.confirmed
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (g *streamGauges) setState(stream change.StreamID, state change.StreamState, err error) {
	g.update(stream, func(s *streamGauge) {
		before := s.follows()
		s.state = state
		if before && !s.follows() {
			s.left = g.now()
		}
		switch {
		case state == change.StateRefused, state == change.StateUnsupported, reflector.IsRefused(err):
			s.refused = true
		case err != nil, isCurrent(state):
			s.refused = false
		}
	})
}

// notAssigned is the slot of streams that the start found in the checkpoint, until replicas share the slots.
const notAssigned = -2

// StreamsFound sets the streams of the checkpoint, before the start waits for the sink. Until it is over nobody knows whose they are, and
// they fall behind.
func (m *Metrics) StreamsFound(positions []change.Position) {
	for _, p := range positions {
		if p.Ended == "" {
			m.streams.update(p.Stream, func(s *streamGauge) { s.slot, s.confirmed = notAssigned, latest(s.confirmed, p.Time) })
		}
	}
}

// SlotStreams sets the streams of a slot; none: it is another replica's.
func (m *Metrics) SlotStreams(slot int, positions []change.Position) {
	m.streams.slot(slot, positions)
	for _, p := range positions {
		m.of(p.Stream)
	}
}

func (g *streamGauges) slot(slot int, positions []change.Position) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := map[change.StreamID]bool{}
	for _, p := range positions {
		mine[p.Stream] = true
		s := g.of(p.Stream)
		s.slot, s.confirmed = slot, latest(s.confirmed, p.Time)
	}
	for id, s := range g.all {
		if s.slot == slot && !mine[id] {
			delete(g.all, id)
		}
	}
}

// StreamObjects sets the function that returns how many objects of a stream are known.
func (m *Metrics) StreamObjects(slot int, stream change.StreamID, known func() int64) {
	m.streams.update(stream, func(s *streamGauge) {
		if s.slot, s.ended = slot, false; known != nil {
			s.known = known
		}
	})
}

func (g *streamGauges) position(slot int, p change.Position) {
	g.update(p.Stream, func(s *streamGauge) {
		s.slot, s.ended, s.confirmed = slot, p.Ended != "", latest(s.confirmed, p.Time)
	})
}

// stopped records that the session that read a stream ends. What it had read and the log has not will be read again.
func (g *streamGauges) stopped(stream change.StreamID) {
	read := g.since()[stream]
	g.update(stream, func(s *streamGauge) {
		s.left = s.completeUntil(g.now(), read)
		if s.state = stateNew; s.known != nil {
			n := s.known()
			s.known = func() int64 { return n } // the session's memory is not held
		}
	})
}

func (g *streamGauges) relisted(stream change.StreamID, reason reflector.RelistReason) {
	g.update(stream, func(s *streamGauge) { s.relist = reason })
}

// relistReason returns why the stream's last watch could not resume.
func (g *streamGauges) relistReason(stream change.StreamID) reflector.RelistReason {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.all[stream]; s != nil && s.relist != "" {
		return s.relist
	}
	return reflector.RelistExpired
}

func (g *streamGauges) proven(stream change.StreamID, differ int) {
	g.update(stream, func(s *streamGauge) { s.proven, s.differ = g.now(), differ })
}
