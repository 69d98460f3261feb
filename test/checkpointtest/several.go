package checkpointtest

import (
	"testing"

	"kubecdc/checkpoint"
)

func severalBatches(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	commit := func(first, seq uint64) error {
		c := everything(epoch, seq)
		c.First = first
		return s.store.Commit(s.ctx, c)
	}
	s.must(commit(1, 3))
	s.must(commit(4, 4))
	for _, stray := range []struct{ first, seq uint64 }{{4, 6}, {1, 5}, {6, 7}, {3, 5}} { // one batch is already there, or one is missing
		s.wantError(commit(stray.first, stray.seq), checkpoint.ErrBehind)
	}
	s.must(commit(5, 9))
	s.must(s.store.Check(s.ctx, 0, epoch, 9))
	s.wantError(s.store.Check(s.ctx, 0, epoch, 10), checkpoint.ErrBehind)
	if h := s.history(0); len(h) == 0 || h[0].Seq != 9 {
		t.Fatalf("history is %+v", h)
	}
	if state := s.acquire(0, "a"); state.Seq != 9 {
		t.Fatalf("state is %+v", state)
	}
}
