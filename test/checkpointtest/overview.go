package checkpointtest

import (
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func overview(t *testing.T, s *suite) {
	if owners, err := s.store.SlotOwners(s.ctx); err != nil || len(owners) > 0 {
		t.Fatalf("owners before there is a layout: %v, %v", owners, err)
	}
	_, err := s.store.Slots(s.ctx, 3)
	s.must(err)
	epoch := s.acquire(0, "a").Epoch
	released := s.acquire(2, "b").Epoch
	s.must(s.store.Release(s.ctx, 2, released))
	s.put(0, epoch, 1, "pods")
	owners, err := s.store.SlotOwners(s.ctx)
	s.must(err)
	if len(owners) != 3 {
		t.Fatalf("%d slots have a row, not 3: %+v", len(owners), owners)
	}
	held, never, ended := owners[0], owners[1], owners[2]
	if held.Owner != "a" || !held.Held || held.Seq != 1 || held.Epoch != epoch || time.Until(held.Until) < ttl/2 ||
		time.Since(held.Time).Abs() > ttl {
		t.Errorf("slot 0 is %+v", held)
	}
	if !reflect.DeepEqual(never, checkpoint.SlotOwner{Slot: 1}) {
		t.Errorf("slot 1 is %+v", never)
	}
	if now, err := s.store.Clock(s.ctx); err != nil || time.Since(now).Abs() > ttl {
		t.Errorf("its clock says %s: %v", now, err)
	}
	if ended.Owner != "b" || ended.Held || !ended.Time.IsZero() {
		t.Errorf("slot 2 is %+v", ended)
	}
}

func selection(t *testing.T, s *suite) {
	_, err := s.store.Slots(s.ctx, 3)
	s.must(err)
	pods, none := s.acquire(0, "a").Epoch, s.acquire(1, "a").Epoch
	selected := func(want ...[]change.StreamID) {
		t.Helper()
		owners, err := s.store.SlotOwners(s.ctx)
		s.must(err)
		for slot, o := range owners {
			if !reflect.DeepEqual(o.Selected, want[slot]) {
				t.Errorf("slot %d has %#v, want %#v", slot, o.Selected, want[slot])
			}
		}
	}
	selected(nil, nil, nil)
	s.must(s.store.RecordSelection(s.ctx, 0, pods, []change.StreamID{"nodes", "pods@shop?labels=a in (\"b\")"}))
	s.must(s.store.RecordSelection(s.ctx, 1, none, nil))
	selected([]change.StreamID{"nodes", "pods@shop?labels=a in (\"b\")"}, []change.StreamID{}, nil)
	s.must(s.store.RecordSelection(s.ctx, 0, pods, []change.StreamID{"pods"}))
	s.must(s.store.Release(s.ctx, 0, pods))
	s.acquire(0, "b")
	s.wantError(s.store.RecordSelection(s.ctx, 0, pods, nil), checkpoint.ErrFenced)
	selected([]change.StreamID{"pods"}, []change.StreamID{}, nil)
}

func lastControls(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	gap := func(stream change.StreamID, batch uint64, complete bool) change.Control {
		return change.Control{Type: change.ControlGap, Stream: stream, Batch: batch, TimeMs: int64(batch),
			Gap: &change.Gap{From: "1", To: "9", Complete: complete}}
	}
	proof := change.Control{Type: change.ControlProof, Stream: "pods", Batch: 1, Proof: &change.Proof{Result: change.ProofEqual}}
	quiet := change.Control{Type: change.ControlWatermark, Stream: "pods", Batch: 1}
	newer := []change.Control{gap("pods", 2, true)}
	for i, controls := range [][]change.Control{{gap("pods", 1, false), gap("nodes", 1, false), quiet, proof}, newer} {
		s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: uint64(i) + 1, Controls: checkpoint.RetainedControls(controls)}))
	}
	got, err := s.store.LastControls(s.ctx)
	want := []change.Control{gap("nodes", 1, false), newer[0], proof}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("the last control records are\n%+v, %v, not\n%+v", got, err, want)
	}
	s.acquire(0, "a")
	stale := checkpoint.Commit{Epoch: epoch, Seq: 3, Controls: []change.Control{gap("pods", 3, false)}}
	s.wantError(s.store.Commit(s.ctx, stale), checkpoint.ErrFenced)
	if again, err := s.store.LastControls(s.ctx); err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("a fenced owner has changed them to %+v, %v", again, err)
	}
}
