package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/internal/plain"
	"kubecdc/status"
)

// Health collects what the parts of the process report. Report (readiness.go) decides from it whether the process is ready.
type Health struct {
	mu       sync.Mutex
	now      func() time.Time
	slots    map[int]*slotHealth
	problems map[string]*problem // by component
	waitsOn  string              // the dependency that the start waits for; empty: none
	stalls   map[string]*problem // calls without an answer, by dependency
	streams  map[change.StreamID]*streamHealth
	standby  string
	servers  map[string]*serverHealth // by dependency
	replicas ownership.Status         // as of the last heartbeat
	started  time.Time
	past     []status.Past // the last problems that went away
}

type problem struct {
	text  string
	since time.Time
}

type slotHealth struct {
	held         bool
	streamsKnown bool
	owner        string // another replica
	activity     string // what delays a slot that is not held yet; empty: nothing in particular
	dependency   string // that the error is attributed to; empty: the slot itself
	err          *problem
}

type streamHealth struct {
	state          change.StreamState
	since          time.Time // when the stream entered the state
	settled        bool      // it has had a position or an error
	recovering     string    // how far its recovery is; empty: there is none, or it has just begun
	err            *problem
	removalUnknown *problem
	proof          *problem // the last proof found that objects differ
	log            streamLog
}

// States of a stream that has no reflector.
const (
	stateNew     change.StreamState = "new"      // not started yet
	stateNotRead change.StreamState = "not-read" // not selected; only the removal of its resource matters
)

// NewHealth expects the given slots to be held.
func NewHealth(slots ...int) *Health {
	h := &Health{now: time.Now, slots: map[int]*slotHealth{}, problems: map[string]*problem{}, stalls: map[string]*problem{},
		streams: map[change.StreamID]*streamHealth{}, servers: map[string]*serverHealth{}, started: time.Now().UTC()}
	for _, s := range slots {
		h.slots[s] = &slotHealth{}
	}
	return h
}

// SlotHeld reports whether this process owns the slot.
func (h *Health) SlotHeld(slot int, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slot(slot).held, h.slot(slot).streamsKnown = held, false
	if held { // both were read
		h.used(dependency.Sink)
		h.used(dependency.Checkpoint)
	}
}

// SlotProblem reports the error that a slot is stuck on, and its dependency, if known; nil when the slot continues.
func (h *Health) SlotProblem(slot int, server string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.judgeServers()
	s := h.slot(slot)
	if err == nil {
		h.over(cmp.Or(s.dependency, fmt.Sprintf("slot %d", slot)), "", s.err)
		s.err = nil
		return
	}
	s.err, s.dependency = h.update(s.err, err), server
}

// Rebuilding reports the progress of the rebuild of the slot's checkpoint; total is 0 when it has ended.
func (h *Health) Rebuilding(slot int, done, total int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slot(slot).activity = ""; total > 0 {
		h.slot(slot).activity = fmt.Sprintf("its checkpoint is being rebuilt from the log: %d of %d records read", done, total)
	}
}

// RollingForward reports the batch that the slot's checkpoint was rolled forward to; last is 0 when that has ended.
func (h *Health) RollingForward(slot int, batch, last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slot(slot).activity = ""; last > 0 {
		h.slot(slot).activity = fmt.Sprintf("its checkpoint is being rolled forward: at batch %d of %d", batch, last)
	}
}

func (h *Health) slot(number int) *slotHealth {
	if h.slots[number] == nil {
		h.slots[number] = &slotHealth{}
	}
	return h.slots[number]
}

// StreamsKnown reports that StreamAdded was called for all streams of the slot.
func (h *Health) StreamsKnown(slot int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slot(slot).streamsKnown = true
}

// ReplicaStatus notes who owns which slot, and why this replica is on standby, if it is.
func (h *Health) ReplicaStatus(s ownership.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Owners = maps.Clone(s.Owners)
	h.replicas, h.standby = s, s.Standby
	for number, slot := range h.slots {
		if slot.owner = s.Owners[number]; slot.owner == s.Self {
			slot.owner = ""
		}
	}
	h.used(dependency.APIServer) // or the replica would not have come so far
}

// StreamState reports a stream's state, and its error, or nil. The error stays until the stream is current again.
func (h *Health) StreamState(id change.StreamID, state change.StreamState, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[id]
	if s == nil {
		s = &streamHealth{}
		h.streams[id] = s
	}
	resumed := s.state == change.StatePaused && state != change.StatePaused
	if s.state != state {
		s.state, s.since = state, h.now()
	}
	if state != change.StateBackfilling && state != change.StateWaiting && state != change.StateRefused {
		s.recovering = ""
	}
	switch {
	case err != nil:
		s.err = h.update(s.err, err)
	case isCurrent(state), resumed:
		h.over(streamComponent, id, s.err)
		s.err = nil
	}
	s.settled = s.settled || isCurrent(state) || err != nil
}

// isCurrent reports that the log follows the stream's resource, or has the deletion of all its objects.
func isCurrent(state change.StreamState) bool {
	return state == change.StateWatching || state == change.StateCatchingUp || state == change.StateAbsent
}

// RecoveryProgress reports how many of the revisions of a gap are accounted for.
func (h *Health) RecoveryProgress(id change.StreamID, done, total, requests int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[id]; s != nil {
		s.recovering = fmt.Sprintf("recovers what its watch missed: %d of %d revisions accounted for, %d requests", done, total, requests)
	}
}

// StreamAdded reports a stream of a slot that this process owns.
func (h *Health) StreamAdded(id change.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[id] == nil {
		h.streams[id] = &streamHealth{state: stateNew, since: h.now()}
	}
}

// RemovalUnknown reports why it is unknown whether a stream's resource was removed; nil when it is known. It may be called for
// streams that are not read.
func (h *Health) RemovalUnknown(id change.StreamID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[id]
	switch {
	case s == nil && err == nil:
		return
	case s == nil:
		s = &streamHealth{state: stateNotRead, since: h.now(), settled: true}
		h.streams[id] = s
	case err == nil && s.state == stateNotRead:
		delete(h.streams, id)
	}
	if err == nil {
		s.removalUnknown = nil
		return
	}
	s.removalUnknown = h.update(s.removalUnknown, err)
}

// Proof reports whether the stream's objects differed from the API server's at a resourceVersion.
func (h *Health) Proof(id change.StreamID, p *change.Proof, at change.ResourceVersion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[id]
	switch {
	case s == nil:
	case p.Result == change.ProofDifferent:
		s.proof = h.update(s.proof, fmt.Errorf("its objects in the log differ from the API server's at resourceVersion %s: %s "+
			"(exporter verify names them)", at, p))
	default:
		s.proof = nil
	}
}

func (h *Health) Forget(id change.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, id)
}

// Problem reports that a component ("sink", "start", …) can't work for now; nil: it works again.
func (h *Health) Problem(component string, err error) {
	if err == nil {
		h.Clear(component)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.judgeServers()
	h.problems[component] = h.update(h.problems[component], err)
}

// Clear reports that a component works again.
func (h *Health) Clear(component string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.judgeServers()
	h.over(component, "", h.problems[component])
	delete(h.problems, component)
}

// Stalled reports the oldest call to a dependency that is unanswered; nil when there is none.
func (h *Health) Stalled(server string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.judgeServers()
	if err == nil {
		h.over(server, "", h.stalls[server])
		delete(h.stalls, server)
		return
	}
	h.stalls[server] = h.update(h.stalls[server], err)
}

// mostPast is how many problems that went away are remembered: all streams may have had one, of one cause.
const mostPast = 1000

// over remembers a problem that went away; nil: there was none.
func (h *Health) over(component string, stream change.StreamID, p *problem) {
	if p == nil {
		return
	}
	if len(h.past) == mostPast {
		h.past = slices.Delete(h.past, 0, 1)
	}
	h.past = append(h.past, status.Past{Component: component, Text: p.text, Since: p.since.UTC(), Until: h.now().UTC(), Stream: stream})
}

// update returns the problem with the error's text. A problem keeps its time while its text changes.
func (h *Health) update(before *problem, err error) *problem {
	p := problem{text: status.HideNames(plain.Redact(err.Error())), since: h.now()}
	if before != nil {
		p.since = before.since
	}
	return &p
}
