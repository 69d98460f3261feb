package checkpointtest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// historyOffsets commits over several seconds. Each batch moves one partition of many, so that most stand still in each
// second, and some for all the time.
func historyOffsets(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	other := s.acquire(1, "a").Epoch
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Slot: 1, Epoch: other, Seq: 1, Offsets: change.Offsets{"k8s.pods": {0: 999}}}))
	after := map[uint64]change.Offsets{} // each batch
	now := change.Offsets{}
	commit := func(moved change.Offsets) {
		seq := uint64(len(after) + 1)
		s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: seq, Offsets: moved}))
		after[seq] = change.Offsets{}.Merge(now.Merge(moved))
	}
	wantFolded := func(limit, rows int) []checkpoint.Checkpoint {
		t.Helper()
		h, err := s.store.History(s.ctx, 0, limit)
		s.must(err)
		if len(h) != rows {
			t.Fatalf("%d checkpoints, not %d", len(h), rows)
		}
		for _, c := range h {
			if !reflect.DeepEqual(c.Offsets, after[c.Seq]) {
				t.Fatalf("offsets after batch %d are %v, not %v", c.Seq, c.Offsets, after[c.Seq])
			}
		}
		return h
	}
	commit(change.Offsets{"k8s.still": {0: 7, 5: 8}, "k8s.pods": {0: 1}})
	for len(s.history(0)) < 4 { // as many seconds
		seq := len(after) + 1
		commit(change.Offsets{"k8s.pods": {seq % 6: int64(seq)}, fmt.Sprint("k8s.", seq%5): {0: int64(seq)}})
	}
	for limit := range 4 {
		wantFolded(limit+1, limit+1)
	}
	h := wantFolded(100, 4)
	s.must(s.store.Prune(s.ctx, time.Since(h[2].Time.Add(h[1].Time.Sub(h[2].Time)/2))))
	wantFolded(100, 2)
	commit(change.Offsets{"k8s.pods": {3: 1 << 40}})
	s.must(s.store.Prune(s.ctx, 0))
	wantFolded(100, 1)
	commit(change.Offsets{"k8s.new": {0: 1}})
	if got, want := wantFolded(1, 1)[0].Offsets, s.acquire(0, "a").Offsets; !reflect.DeepEqual(got, want) {
		t.Fatalf("the newest checkpoint has offsets %v, the slot %v", got, want)
	}
}
