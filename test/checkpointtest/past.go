package checkpointtest

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// past commits over some seconds. One stream moves only with the first batch, another with every batch.
func past(t *testing.T, s *suite) {
	store := s.store.(checkpoint.Past)
	var unknown *checkpoint.UnknownClusterError
	if err := store.Find(s.ctx, "staging"); !errors.As(err, &unknown) {
		t.Fatalf("a cluster that is not there: %v", err)
	}
	epoch := s.acquire(0, "a").Epoch
	s.acquire(3, "a")
	still := position("still", "7")
	var seq uint64
	for pace := time.Tick(20 * time.Millisecond); len(s.history(0)) < 4; <-pace { // until that many seconds have passed
		seq++
		c := checkpoint.Commit{Epoch: epoch, Seq: seq, Positions: []change.Position{position("moves", change.VersionOf(seq))},
			Offsets: change.Offsets{"k8s.pods": {int(seq % 3): int64(seq)}}}
		if seq == 1 {
			c.Positions = append(c.Positions, still)
		}
		s.must(s.store.Commit(s.ctx, c))
	}
	s.must(store.Find(s.ctx, "prod"))
	if slots, err := store.HistorySlots(s.ctx); err != nil || !reflect.DeepEqual(slots, []int{0}) {
		t.Fatalf("slots with a history are %v, %v", slots, err)
	}
	all := s.history(0)
	for _, w := range []struct {
		checkpoint.Window
		first, last int
	}{
		{checkpoint.Window{}, 0, 3},
		{checkpoint.Window{Limit: 2}, 0, 1},
		{checkpoint.Window{Batch: all[2].Seq}, 2, 2},
		{checkpoint.Window{Until: all[1].Time}, 1, 3},
		{checkpoint.Window{Since: all[2].Time}, 0, 2},
		{checkpoint.Window{Since: all[2].Time, Until: all[1].Time}, 1, 2},
		{checkpoint.Window{Until: all[1].Time.Add(-time.Microsecond), Limit: 1}, 2, 2},
	} {
		got, err := store.Select(s.ctx, 0, w.Window)
		if err != nil || !reflect.DeepEqual(got, all[w.first:w.last+1]) {
			t.Fatalf("%+v selects %+v, %v, not rows %d to %d", w.Window, got, err, w.first, w.last)
		}
	}
	for _, c := range all {
		positions, err := store.PositionsAt(s.ctx, 0, c.Seq)
		want := []change.Position{position("moves", change.VersionOf(c.Seq)), still}
		if err != nil || !reflect.DeepEqual(positions, want) {
			t.Fatalf("positions after batch %d are %v, %v, not %v", c.Seq, positions, err, want)
		}
	}
	if got, err := store.PositionsAt(s.ctx, 0, all[3].Seq-1); err != nil || len(got) > 0 {
		t.Fatalf("positions before the first batch: %s", fmt.Sprint(got, err))
	}
}
