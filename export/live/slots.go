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
	Epoch        int64  // epoch in which this process last held it, or 0
	Delay        string // what delays a slot that is not held yet, or empty
	Problem      *Problem
	Server       string    // cause of the problem; empty: the slot itself
	LastCommit   time.Time // when this process last wrote a batch of it, or zero
	Fill         Fill
}

// Fill is what a slot has in memory.
type Fill struct {
	Changes, Bytes       int64 // read, but not yet durable
	MaxChanges, MaxBytes int64 // limits, at which the streams wait
	// number of objects whose last state is in the log, but not yet in the checkpoint
	Pending int64
	Streams map[change.StreamID]time.Time // when each stream's first record was read that is not yet durable
	Spool   Spool                         // zero: the sink has everything that is durable
}

// Spool is what a slot has in its spool.
type Spool struct {
	Since, Oldest   time.Time // when its first batch was written, and the first one that the sink does not have
	Bytes, MaxBytes int64
	Batches         uint64 // number of batches that the sink does not have
	Full            bool
	Why             string // why the sink does not take them, or empty if it does
}

type slot struct {
	Slot
	fill func() Fill // nil: there is no session
}

// slot returns a slot of the layout. While the layout changes, a slot may belong to another layout. For such a slot it returns a
// new one, which is not shown. The caller holds the lock.
func (e *Exporter) slot(number int) *slot {
	if s := e.slots[number]; s != nil {
		return s
	}
	return &slot{}
}

// read returns what the slot has in memory. Without a session it has only its limits and its spool.
func (s *slot) read() Fill {
	if s.fill == nil {
		return Fill{MaxChanges: s.Fill.MaxChanges, MaxBytes: s.Fill.MaxBytes, Spool: s.Fill.Spool}
	}
	return s.fill()
}

// SlotHeld records whether this process owns the slot.
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

// Buffering sets the function that returns what the slot has in memory, until the slot is not held any more.
func (e *Exporter) Buffering(number int, fill func() Fill) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slot(number).fill = fill
}

// Problem reports the error that blocks a slot. It reports nil when the slot continues, or when this replica does not work on it
// any more.
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
	s.Problem, s.Server = e.problem(s.Problem, err), dependency.NameOf(err)
	e.Count.SessionFailed(number)
	e.Count.Error(cmp.Or(s.Server, StageCommit))
}

// Delayed reports what delays a slot that is not held yet, or "" once nothing does.
func (e *Exporter) Delayed(number int, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slot(number).Delay = reason
}

// StreamsKnown reports that all streams of the slot were added.
func (e *Exporter) StreamsKnown(number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slot(number).StreamsKnown = true
}

// HasProblem reports whether a slot's last session failed.
func (e *Exporter) HasProblem() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
		if s.Problem != nil {
			return true
		}
	}
	return false
}

// HasHeld reports whether this process has held a slot. Before that nothing is in flight.
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
