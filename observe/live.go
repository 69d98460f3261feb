package observe

import (
	"maps"
	"math"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export"
	"kubecdc/internal/dependency"
	"kubecdc/status"
)

// What Health tells a status, besides whether the process is ready.

// streamLog is what the log got of a stream.
type streamLog struct {
	position change.Position
	rate     average
	controls map[change.ControlType]change.Control // the last one of each type that a status shows
}

// serverHealth says since when a server is up or down. It is nil until the server was first used.
type serverHealth struct {
	up    bool
	since time.Time
}

// average is a rate over about the last minute.
type average struct {
	perSecond float64
	at        time.Time
}

const rateSeconds = 60

func (r *average) add(n int, now time.Time) {
	r.perSecond, r.at = r.now(now)+float64(n)/rateSeconds, now
}

func (r *average) now(now time.Time) float64 {
	return r.perSecond * math.Exp(-now.Sub(r.at).Seconds()/rateSeconds)
}

func (h *Health) Committed(c export.Committed) {
	counts := countByStream(c.Batch.Changes)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used(dependency.Sink)
	now := h.now()
	for id, n := range counts {
		if s := h.streams[id]; s != nil {
			s.log.rate.add(n, now)
		}
	}
	for _, p := range c.Batch.Positions {
		if s := h.streams[p.Stream]; s != nil {
			s.log.position = p
		}
	}
	for _, control := range checkpoint.KeptControls(c.Batch.Controls) {
		if s := h.streams[control.Stream]; s != nil {
			if s.log.controls == nil {
				s.log.controls = map[change.ControlType]change.Control{}
			}
			s.log.controls[control.Type] = control
		}
	}
}

// countByStream counts changes. Those of a stream often follow each other.
func countByStream(changes []change.Change) map[change.StreamID]int {
	counts := map[change.StreamID]int{}
	for i := 0; i < len(changes); {
		stream, first := changes[i].Stream, i
		for i < len(changes) && changes[i].Stream == stream {
			i++
		}
		counts[stream.ID()] += i - first
	}
	return counts
}

func (h *Health) Checkpointed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used(dependency.Checkpoint)
}

// used notes that a server works, unless it has a problem.
func (h *Health) used(server string) {
	if h.servers[server] == nil {
		h.servers[server] = &serverHealth{up: true, since: h.now()}
	}
	h.judgeServer(server)
}

// judgeServer notes when a server goes down or comes up again.
func (h *Health) judgeServer(name string) {
	s, up := h.servers[name], !h.fails(name)
	switch {
	case s == nil && !up:
		h.servers[name] = &serverHealth{since: h.now()}
	case s != nil && s.up != up:
		s.up, s.since = up, h.now()
	}
}

func (h *Health) judgeServers() {
	for _, name := range dependency.All {
		h.judgeServer(name)
	}
}

func (h *Health) Live() *status.Live {
	report := h.Report()
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &status.Live{Slots: len(h.slots), Owners: maps.Clone(h.replicas.Owners), Past: slices.Clone(h.past)}
	l.Process = status.Process{Name: h.replicas.Self, Started: h.started, Ready: report.Ready, Standby: report.Standby,
		Replicas: h.replicas.Replicas}
	for _, p := range report.Problems {
		l.Problems = append(l.Problems, p.Problem)
	}
	for _, name := range slices.Sorted(maps.Keys(h.servers)) {
		l.Servers = append(l.Servers, status.Server{Name: name, Up: h.servers[name].up, Since: h.servers[name].since.UTC()})
	}
	for number, s := range h.slots {
		if s.held {
			l.Held = append(l.Held, number)
		}
	}
	for id, s := range h.streams {
		if s.state == stateNotRead {
			continue
		}
		l.Streams = append(l.Streams, status.LiveStream{ID: id, State: s.state, Since: s.since.UTC(), Position: s.log.position,
			Rate: s.log.rate.now(h.now()), Controls: slices.Collect(maps.Values(s.log.controls))})
	}
	return l
}
