package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/config"
)

// Health collects what the parts of the process report, for /readyz.
//
// Ready means: a slot is held, the streams of those held are known, no component has a problem, and every stream has
// had its first position or has reported an error. A stream's error alone does not make the process unready: the
// others go on, and the error is listed; likewise another slot's, while one is held. Once settled, a stream stays so.
// A replica that is to hold no slot, since others do, is ready: it stands by.
type Health struct {
	mu       sync.Mutex
	now      func() time.Time
	slots    map[int]*slotHealth
	problems map[string]trouble
	stalls   map[string]trouble // what has had no answer, by component
	streams  map[change.StreamID]*streamHealth
	standby  string
}

type trouble struct {
	text  string
	since time.Time
}

type slotHealth struct {
	held  bool
	known bool   // its streams
	owner string // another replica
	doing string // what it does before it is held; empty for nothing in particular
	part  string // that err comes from; empty: the slot itself
	err   *trouble
}

type streamHealth struct {
	state   string
	since   time.Time // when the state was entered
	settled bool
	err     *trouble
	doubt   *trouble // whether its resource was removed is not known
}

// NewHealth expects the given slots to be held.
func NewHealth(slots ...int) *Health {
	h := &Health{now: time.Now, slots: map[int]*slotHealth{}, problems: map[string]trouble{}, stalls: map[string]trouble{}, streams: map[change.StreamID]*streamHealth{}}
	for _, s := range slots {
		h.slots[s] = &slotHealth{}
	}
	return h
}

// SlotHeld says whether this process owns the slot.
func (h *Health) SlotHeld(slot int, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slot(slot).held, h.slot(slot).known = held, false
}

// SlotProblem says what a slot is stuck on, and which part that is, if known; nil when it goes on.
func (h *Health) SlotProblem(slot int, part string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slot(slot)
	if err == nil {
		s.err = nil
		return
	}
	s.err, s.part = h.trouble(s.err, err), part
}

// SlotRebuilding says how far the rebuild of the slot's checkpoint is; of 0 ends it.
func (h *Health) SlotRebuilding(slot int, done, of int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slot(slot).doing = ""; of > 0 {
		h.slot(slot).doing = fmt.Sprintf("its checkpoint is being rebuilt from the log: %d of %d records read", done, of)
	}
}

// SlotRollingForward says which batch of the log the slot's checkpoint has come to; of 0 ends it.
func (h *Health) SlotRollingForward(slot int, batch, of uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slot(slot).doing = ""; of > 0 {
		h.slot(slot).doing = fmt.Sprintf("its checkpoint is being rolled forward over what the log has after it: at batch %d of %d", batch, of)
	}
}

func (h *Health) slot(number int) *slotHealth {
	if h.slots[number] == nil {
		h.slots[number] = &slotHealth{}
	}
	return h.slots[number]
}

// StreamsKnown says that StreamAdded was called for all streams of the slot.
func (h *Health) StreamsKnown(slot int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slot(slot).known = true
}

// Standing says which slots others own, and why this replica is to hold none, if so.
func (h *Health) Standing(owners map[int]string, standby string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standby = standby
	for number, s := range h.slots {
		s.owner = owners[number]
	}
}

// StreamState says what a stream is doing, and what is wrong, or nil. An error stays listed until the stream is
// watching, or absent, again.
func (h *Health) StreamState(id change.StreamID, state string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[id]
	if s == nil {
		s = &streamHealth{}
		h.streams[id] = s
	}
	if s.state != state {
		s.state, s.since = state, h.now()
	}
	well := state == "watching" || state == "catching-up" || state == "absent"
	switch {
	case err != nil:
		s.err = h.trouble(s.err, err)
	case well:
		s.err = nil
	}
	s.settled = s.settled || well || err != nil
}

// StreamAdded says that a stream is owned here.
func (h *Health) StreamAdded(id change.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[id] == nil {
		h.streams[id] = &streamHealth{state: "new", since: h.now()}
	}
}

// StreamDoubt says why it is not known whether a stream's resource was removed; nil when that is known. Of one that is
// not read nothing else is expected.
func (h *Health) StreamDoubt(id change.StreamID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[id]
	switch {
	case s == nil && err == nil:
		return
	case s == nil:
		s = &streamHealth{state: "unsettled", since: h.now(), settled: true}
		h.streams[id] = s
	case err == nil && s.state == "unsettled":
		delete(h.streams, id)
	}
	if err == nil {
		s.doubt = nil
		return
	}
	s.doubt = h.trouble(s.doubt, err)
}

// Forget drops a stream that is watched no more.
func (h *Health) Forget(id change.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, id)
}

// Problem says that a component ("sink", "checkpoint", "discovery", …) can't do its work for now.
func (h *Health) Problem(component string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var before *trouble
	if t, ok := h.problems[component]; ok {
		before = &t
	}
	h.problems[component] = *h.trouble(before, err)
}

// Clear says that a component works again.
func (h *Health) Clear(component string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.problems, component)
}

// Stalled says what a component has not answered; nil when nothing waits for it.
func (h *Health) Stalled(component string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.stalls, component)
		return
	}
	var before *trouble
	if t, ok := h.stalls[component]; ok {
		before = &t
	}
	h.stalls[component] = *h.trouble(before, err)
}

// trouble keeps the time that the trouble began, while its text may change.
func (h *Health) trouble(before *trouble, err error) *trouble {
	t := trouble{text: config.Redact(err.Error()), since: h.now()}
	if before != nil {
		t.since = before.since
	}
	return &t
}

// Report is what /readyz answers.
type Report struct {
	Ready   bool    `json:"ready"`
	Standby string  `json:"standby,omitempty"` // why no slot is held here, when that is as it should be
	Slots   Count   `json:"slots"`
	Streams Count   `json:"streams"`
	Wrong   []Wrong `json:"wrong"` // what keeps the process from being ready first
}

// Count says how many of all are as they should be.
type Count struct {
	OK  int `json:"ok"`
	All int `json:"all"`
}

// Wrong is one thing that is not as it should be.
type Wrong struct {
	Component string    `json:"component"`
	Problem   string    `json:"problem"`
	Since     time.Time `json:"since,omitzero"`
	Blocks    bool      `json:"blocks_ready"`
}

// Report says whether the process is ready, and all that is wrong.
func (h *Health) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Report{Wrong: []Wrong{}, Standby: h.standby}
	h.reportSlots(&r)
	h.reportComponents(&r)
	h.reportStreams(&r)
	r.Ready = !slices.ContainsFunc(r.Wrong, func(w Wrong) bool { return w.Blocks })
	slices.SortStableFunc(r.Wrong, func(a, b Wrong) int { return cmp.Compare(rank(a), rank(b)) })
	return r
}

func rank(w Wrong) int {
	if w.Blocks {
		return 0
	}
	return 1
}

func (h *Health) reportSlots(r *Report) {
	for _, s := range h.slots {
		if s.held {
			r.Slots.OK++
		}
	}
	r.Slots.All = len(h.slots)
	for _, number := range slices.Sorted(maps.Keys(h.slots)) {
		s := h.slots[number]
		w := Wrong{Component: fmt.Sprintf("slot %d", number), Blocks: r.Slots.OK == 0 && h.standby == ""}
		switch {
		case s.err != nil:
			w.Problem, w.Since = s.err.text, s.err.since
			if s.part != "" {
				w.Component, w.Problem = s.part, w.Component+": "+w.Problem
			}
		case s.held && s.known:
			continue
		case s.held:
			w.Problem, w.Blocks = "its streams are not known yet", true
		case s.doing != "":
			w.Problem = s.doing
		case s.owner == "":
			w.Problem = "not held yet"
		case !w.Blocks:
			continue // another replica works on it
		default:
			w.Problem = "held by " + s.owner
		}
		r.Wrong = append(r.Wrong, w)
	}
}

func (h *Health) reportComponents(r *Report) {
	for _, troubles := range []map[string]trouble{h.problems, h.stalls} {
		for _, name := range slices.Sorted(maps.Keys(troubles)) {
			t := troubles[name]
			r.Wrong = append(r.Wrong, Wrong{Component: name, Problem: t.text, Since: t.since, Blocks: true})
		}
	}
}

func (h *Health) reportStreams(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(h.streams)) {
		s := h.streams[id]
		r.Streams.All++
		if s.doubt != nil {
			r.Wrong = append(r.Wrong, Wrong{Component: "stream " + string(id), Problem: s.doubt.text, Since: s.doubt.since})
		}
		switch {
		case s.err != nil:
			r.Wrong = append(r.Wrong, Wrong{Component: "stream " + string(id), Problem: s.err.text, Since: s.err.since})
		case !s.settled:
			r.Wrong = append(r.Wrong, Wrong{Component: "stream " + string(id), Problem: "no position yet: " + s.state, Since: s.since, Blocks: true})
		case s.doubt == nil:
			r.Streams.OK++
		}
	}
}
