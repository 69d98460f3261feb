package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/config"
)

// Health collects what the parts of the process report, for /readyz.
//
// Ready means: every slot that was expected is held, discovery is done, no component has a problem, and every
// stream has had its first position or has reported an error. A stream's error alone does not make the process
// unready: the others go on, and the error is listed. Once settled, a stream stays so.
type Health struct {
	mu        sync.Mutex
	now       func() time.Time
	slots     map[int]bool
	problems  map[string]trouble
	streams   map[string]*streamHealth
	discovery bool
}

type trouble struct {
	text  string
	since time.Time
}

type streamHealth struct {
	state   string
	since   time.Time // when the state was entered
	settled bool
	err     *trouble
}

// NewHealth expects the given slots to be held.
func NewHealth(slots ...int) *Health {
	h := &Health{now: time.Now, slots: map[int]bool{}, problems: map[string]trouble{}, streams: map[string]*streamHealth{}}
	for _, s := range slots {
		h.slots[s] = false
	}
	return h
}

// SlotHeld says whether this process owns the slot.
func (h *Health) SlotHeld(slot int, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots[slot] = held
}

// Discovered says that the streams are known: those that StreamState was called for.
func (h *Health) Discovered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.discovery = true
}

// StreamState says what a stream is doing, and what is wrong, or nil. An error stays listed until the stream is
// watching, or absent, again.
func (h *Health) StreamState(id, state string, err error) {
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
	well := state == "watching" || state == "absent"
	switch {
	case err != nil:
		s.err = h.trouble(s.err, err)
	case well:
		s.err = nil
	}
	s.settled = s.settled || well || err != nil
}

// Forget drops a stream that is watched no more.
func (h *Health) Forget(id string) {
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
	r := Report{Wrong: []Wrong{}}
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
	for _, slot := range slices.Sorted(maps.Keys(h.slots)) {
		r.Slots.All++
		if h.slots[slot] {
			r.Slots.OK++
			continue
		}
		r.Wrong = append(r.Wrong, Wrong{Component: fmt.Sprintf("slot %d", slot), Problem: "not held: another process owns it, or it is being taken over", Blocks: true})
	}
}

func (h *Health) reportComponents(r *Report) {
	if !h.discovery {
		r.Wrong = append(r.Wrong, Wrong{Component: "discovery", Problem: "the resources are not known yet", Blocks: true})
	}
	for _, name := range slices.Sorted(maps.Keys(h.problems)) {
		t := h.problems[name]
		r.Wrong = append(r.Wrong, Wrong{Component: name, Problem: t.text, Since: t.since, Blocks: true})
	}
}

func (h *Health) reportStreams(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(h.streams)) {
		s := h.streams[id]
		r.Streams.All++
		switch {
		case s.err != nil:
			r.Wrong = append(r.Wrong, Wrong{Component: "stream " + id, Problem: s.err.text, Since: s.err.since})
		case !s.settled:
			r.Wrong = append(r.Wrong, Wrong{Component: "stream " + id, Problem: "no position yet: " + s.state, Since: s.since, Blocks: true})
		default:
			r.Streams.OK++
		}
	}
}
