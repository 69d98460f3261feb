package checkpointtest

import (
	"errors"
	"testing"

	"kubecdc/checkpoint"
)

func (s *suite) wantSlots(want, have int) {
	s.t.Helper()
	got, err := s.store.Slots(s.ctx, want)
	s.must(err)
	if got != have {
		s.t.Fatalf("there are %d slots, not %d", got, have)
	}
}

func (s *suite) wantLayout(err error, want, have int) {
	s.t.Helper()
	var other *checkpoint.LayoutError
	if !errors.As(err, &other) || other.Want != want || other.Have != have {
		s.t.Fatalf("error is %v, not that %d slots are wanted and %d there", err, want, have)
	}
}

func (s *suite) relayout(from, to int, slots map[int]checkpoint.SlotState) error {
	return s.store.Relayout(s.ctx, checkpoint.Relayout{From: from, To: to, Slots: slots})
}

func layouts(t *testing.T, s *suite) {
	s.wantSlots(2, 2)
	s.wantSlots(4, 2)
	zero := s.acquire(0, "a")
	s.put(0, zero.Epoch, 1, "pods")
	zero.Seq = 1
	owned := func(epoch int64, seq uint64) map[int]checkpoint.SlotState {
		return map[int]checkpoint.SlotState{0: zero, 1: {Epoch: epoch, Seq: seq}}
	}
	one := s.acquire(1, "a").Epoch
	s.wantLayout(s.relayout(3, 4, owned(one, 0)), 3, 2)
	s.wantError(s.relayout(2, 4, owned(one-1, 0)), checkpoint.ErrFenced)
	s.wantError(s.relayout(2, 4, map[int]checkpoint.SlotState{0: zero}), checkpoint.ErrFenced)
	s.wantError(s.relayout(2, 4, owned(one+1, 0)), checkpoint.ErrBehind)
	s.wantError(s.relayout(2, 4, owned(one, 1)), checkpoint.ErrBehind)
	s.wantSlots(2, 2)
	s.must(s.relayout(2, 4, owned(one, 0)))
	s.wantSlots(4, 4)
	s.acquire(3, "a")
	s.must(s.relayout(4, 1, s.slots(4)))
	s.wantSlots(1, 1)
	s.acquire(0, "a") // adopted
}

func otherLayout(t *testing.T, s *suite) {
	s.wantSlots(1, 1)
	s.must(s.relayout(1, 3, s.slots(1)))
	s.must(s.relayout(3, 2, s.slots(3)))
	Bind(s.t, s.store, "staging", "uid-2")
	s.wantSlots(1, 1) // the other cluster's
	s.bind()
	s.wantSlots(1, 2) // not adopted, so nothing to compare with
	s.acquire(0, "a")
	s.wantSlots(2, 2)
	s.must(s.relayout(2, 5, s.slots(2)))
	s.wantSlots(5, 5)
}

// slots acquires n slots.
func (s *suite) slots(n int) map[int]checkpoint.SlotState {
	s.t.Helper()
	slots := map[int]checkpoint.SlotState{}
	for slot := range n {
		slots[slot] = s.acquire(slot, "a")
	}
	return slots
}
