package live

import (
	"cmp"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
)

// Slot is a slot, as this process sees it.
type Slot struct {
	Held         bool
	StreamsKnown bool   // all of its streams were added
	Epoch        int64  // when this process held it last; 0: never
	Delay        string // what delays a slot that is not held yet; empty: nothing in particular
	Problem      *Problem
	Server       string    // that the problem is attributed to; empty: the slot itself
	LastCommit   time.Time // when this process last wrote a batch of it; zero: never
	Fill         Fill
}

// Fill is what a slot has in memory.
type Fill struct {
	Changes, Bytes       int64                         // of what was read and is not durable yet
	MaxChanges, MaxBytes int64                         // of these: then the streams wait
	Pending              int64                         // objects whose last state is in the log and not yet in the checkpoint
	Streams              map[change.StreamID]time.Time // when the first record was read that is not durable yet
	Spool                Spool                         // zero: the sink has all that is durable
}

// Spool is what a slot has in its spool.
type Spool struct {
	Since, Oldest   time.Time // when its first batch was written, and the first one that the sink does not have
	Bytes, MaxBytes int64
	Batches         uint64 // that the sink does not have
	Full            bool
	Why             string // the sink does not take them; empty: it does
}

type slot struct {
	Slot
	fill func() Fill // nil: there is no session
}

// slot returns a slot of the layout. Of another one, as while the layout changes, nothing is shown. The caller holds the lock.
func (e *Exporter) slot(number int) *slot {
	if s := e.slots[number]; s != nil {
		return s
	}
	return &slot{}
}

// read returns what the slot has in memory. Its limits and its spool stay while it has no session.
func (s *slot) read() Fill {
	if s.fill == nil {
		return Fill{MaxChanges: s.Fill.MaxChanges, MaxBytes: s.Fill.MaxBytes, Spool: s.Fill.Spool}
	}
	return s.fill()
}

// SlotHeld notes whether this process owns the slot.
func (e *Exporter) SlotHeld(number int, epoch int64, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.slot(number)
	s.Fill, s.fill = s.read(), nil
	s.Held, s.Epoch, s.StreamsKnown = held, epoch, false
	if held { // both were read
		e.used(dependency.Sink)
		e.used(dependency.Checkpoint)
	}
}

// Buffering gives a function that returns what the slot has in memory, until the slot is not held any more.
func (e *Exporter) Buffering(number int, fill func() Fill) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slot(number).fill = fill
}

// Problem reports the error that a slot is stuck on; nil when the slot continues, or this replica does not work on it any more.
func (e *Exporter) Problem(number int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.judge()
	s := e.slot(number)
	if err == nil {
		e.over(cmp.Or(s.Server, fmt.Sprintf("slot %d", number)), "", s.Problem)
		s.Problem = nil
		return
	}
	s.Problem, s.Server = e.problem(s.Problem, err), dependency.Of(err)
	e.Count.SessionFailed(number)
	e.Count.Error(cmp.Or(s.Server, StageCommit))
}

// Delayed reports what delays a slot that is not held yet; empty: nothing any more.
func (e *Exporter) Delayed(number int, by string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slot(number).Delay = by
}

// StreamsKnown reports that all streams of the slot were added.
func (e *Exporter) StreamsKnown(number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slot(number).StreamsKnown = true
}

// HasHeld reports whether this process has held a slot: before that nothing is in flight.
func (e *Exporter) HasHeld() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
		if s.Epoch > 0 {
			return true
		}
	}
	return false
}
