package checkpointtest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func history(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	other := s.acquire(1, "a").Epoch
	s.put(1, other, 1, "nodes")
	streams := []change.StreamID{"stream-0", "stream-1"}
	var seq uint64
	for pace := time.Tick(20 * time.Millisecond); len(s.history(0)) < 3; <-pace { // until that many seconds have passed
		seq++
		c := checkpoint.Commit{Epoch: epoch, Seq: seq, Positions: []change.Position{position(streams[seq%2], change.VersionOf(seq))}}
		s.must(s.store.Commit(s.ctx, c))
	}
	h, err := s.store.Select(s.ctx, 0, checkpoint.Window{Limit: 2})
	s.must(err)
	if len(h) != 2 || h[0].Seq != seq || h[0].Epoch != epoch || time.Since(h[0].Time).Abs() > ttl || h[1].Seq >= seq {
		t.Fatalf("history is %+v", h)
	}
	// A row has all that moved in its second, which had many commits.
	last, before := h[1].Seq, h[1].Seq-1
	want := []change.Position{position(streams[last%2], change.VersionOf(last)), position(streams[before%2], change.VersionOf(before))}
	if last%2 == 1 {
		want[0], want[1] = want[1], want[0]
	}
	if !reflect.DeepEqual(h[1].Positions, want) {
		t.Fatalf("positions are %+v, not %+v", h[1].Positions, want)
	}
	s.must(s.store.Prune(s.ctx, time.Hour))
	if n := len(s.history(0)); n != 3 {
		t.Fatalf("%d checkpoints are left of 3 young ones", n)
	}
	s.must(s.store.Prune(s.ctx, 0))
	if h := s.history(0); len(h) != 1 || h[0].Seq != seq {
		t.Fatalf("history is %+v", h)
	}
	if n := len(s.history(1)); n != 1 {
		t.Fatalf("the other slot has %d checkpoints", n)
	}
	if size, err := s.store.Size(s.ctx); err != nil || size < 8192 {
		t.Fatalf("the store takes %d bytes: %v", size, err)
	}
}

// historyOffsets commits over several seconds. Each batch moves one partition of many. So most partitions do not move in a
// second, and some never move.
func historyOffsets(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	other := s.acquire(1, "a").Epoch
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Slot: 1, Epoch: other, Seq: 1, Offsets: change.Offsets{"k8s.pods": {0: 999}}}))
	after := map[uint64]change.Offsets{} // offsets after each batch
	now := change.Offsets{}
	commit := func(moved change.Offsets) {
		seq := uint64(len(after) + 1)
		s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: seq, Offsets: moved}))
		after[seq] = change.Offsets{}.Merge(now.Merge(moved))
	}
	wantFolded := func(limit, rows int) []checkpoint.Checkpoint {
		t.Helper()
		h, err := s.store.Select(s.ctx, 0, checkpoint.Window{Limit: limit})
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
	for pace := time.Tick(20 * time.Millisecond); len(s.history(0)) < 4; <-pace { // until that many seconds have passed
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
