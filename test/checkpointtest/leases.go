package checkpointtest

import (
	"testing"

	"kubecdc/checkpoint"
)

func newSlot(t *testing.T, s *suite) {
	state := s.acquire(3, "a")
	if state.Epoch != 1 || state.Seq != 0 || len(state.Offsets) != 0 || !state.New {
		t.Fatalf("state is %+v", state)
	}
	s.wantPosition("pods", "")
	s.wantInventory("pods")
}

func heldLease(t *testing.T, s *suite) {
	first := s.acquire(0, "a")
	_, err := s.store.Acquire(s.ctx, 0, "b", ttl)
	s.wantHeld(err, "a")
	s.put(0, first.Epoch, 1, "pods", object("a", "u", "1")) // the owner can still commit
}

func freeLease(t *testing.T, s *suite) {
	_, err := s.store.Acquire(s.ctx, 0, "a", 0) // expires at once
	s.must(err)
	second := s.acquire(0, "b")
	s.must(s.store.Release(s.ctx, 0, second.Epoch))
	if third := s.acquire(0, "c"); third.Epoch != 3 {
		t.Fatalf("epoch is %d", third.Epoch)
	}
	_, err = s.store.Acquire(s.ctx, 0, "a", ttl)
	s.wantHeld(err, "c")
}

func sameOwner(t *testing.T, s *suite) {
	first := s.acquire(0, "a")
	s.put(0, first.Epoch, 1, "pods")
	second := s.acquire(0, "a")
	if second.Epoch != first.Epoch+1 || second.Seq != 1 {
		t.Fatalf("state is %+v", second)
	}
	s.wantError(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: first.Epoch, Seq: 2}), checkpoint.ErrFenced)
}

func renew(t *testing.T, s *suite) {
	first, err := s.store.Acquire(s.ctx, 0, "a", 0)
	s.must(err)
	s.must(s.store.Renew(s.ctx, 0, first.Epoch, ttl)) // no other owner took it
	_, err = s.store.Acquire(s.ctx, 0, "b", ttl)
	s.wantHeld(err, "a")
}

func separateSlots(t *testing.T, s *suite) {
	a, b := s.acquire(0, "a"), s.acquire(1, "b")
	s.put(0, a.Epoch, 1, "pods", object("x", "u", "1"))
	s.put(1, b.Epoch, 1, "nodes", object("x", "u", "2"))
	if seq := s.acquire(1, "b").Seq; seq != 1 {
		t.Fatalf("slot 1 is at batch %d", seq)
	}
	s.put(0, a.Epoch, 2, "pods")
	if s.history(0)[0].Seq != 2 || s.history(1)[0].Seq != 1 {
		t.Fatal("histories are mixed")
	}
}

func fenced(t *testing.T, s *suite) {
	old, err := s.store.Acquire(s.ctx, 0, "a", 0)
	s.must(err)
	s.put(0, old.Epoch, 1, "pods", object("a", "u", "1"))
	s.acquire(0, "b")
	s.wantError(s.store.Commit(s.ctx, everything(old.Epoch, 2)), checkpoint.ErrFenced)
	s.wantError(s.store.Renew(s.ctx, 0, old.Epoch, ttl), checkpoint.ErrFenced)
	s.wantError(s.store.Release(s.ctx, 0, old.Epoch), checkpoint.ErrFenced)

	s.wantInventory("pods", object("a", "u", "1"))
	s.wantPosition("pods", "")
	if h := s.history(0); len(h) != 1 || len(h[0].Positions) != 0 {
		t.Fatalf("history is %+v", h)
	}
	_, err = s.store.Acquire(s.ctx, 0, "a", ttl)
	s.wantHeld(err, "b") // the old owner's Release did not end the new one's lease
}

// forgotten restores a backup: the slot has an older epoch than its owner, or does not exist.
func forgotten(t *testing.T, s *suite) {
	s.put(0, s.acquire(0, "a").Epoch, 1, "pods", object("a", "u", "1"))
	for _, slot := range []int{0, 9} {
		const mine = 7
		s.wantError(s.store.Commit(s.ctx, checkpoint.Commit{Slot: slot, Epoch: mine, Seq: 2}), checkpoint.ErrBehind)
		s.wantError(s.store.Check(s.ctx, slot, mine, 0), checkpoint.ErrBehind)
		s.wantError(s.store.Renew(s.ctx, slot, mine, ttl), checkpoint.ErrBehind)
		s.wantError(s.store.Release(s.ctx, slot, mine), checkpoint.ErrBehind)
	}
	s.wantInventory("pods", object("a", "u", "1"))
}

func check(t *testing.T, s *suite) {
	epoch := s.acquire(2, "a").Epoch
	s.must(s.store.Check(s.ctx, 2, epoch, 0))
	s.wantError(s.store.Check(s.ctx, 2, epoch, 1), checkpoint.ErrBehind)
	s.put(2, epoch, 1, "pods")
	s.must(s.store.Check(s.ctx, 2, epoch, 1))
	s.wantError(s.store.Check(s.ctx, 2, epoch, 2), checkpoint.ErrBehind)
	s.acquire(2, "a")
	s.wantError(s.store.Check(s.ctx, 2, epoch, 1), checkpoint.ErrFenced)
}
