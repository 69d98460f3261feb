package checkpointtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func raiseEpoch(t *testing.T, s *suite) {
	first := s.acquire(0, "a")
	s.put(0, first.Epoch, 1, "pods", object("a", "u", "1"))
	raised, err := s.store.RaiseEpoch(s.ctx, 0, first.Epoch, 41)
	s.must(err)
	if raised <= 41 {
		t.Fatalf("the epoch is raised to %d, not above 41", raised)
	}
	s.wantError(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: first.Epoch, Seq: 2}), checkpoint.ErrFenced)
	_, err = s.store.RaiseEpoch(s.ctx, 0, first.Epoch, 41)
	s.wantError(err, checkpoint.ErrFenced)
	_, err = s.store.RaiseEpoch(s.ctx, 0, raised+1, 99)
	s.wantError(err, checkpoint.ErrBehind)
	s.must(s.store.Renew(s.ctx, 0, raised, ttl))
	again, err := s.store.RaiseEpoch(s.ctx, 0, raised, 3) // never decreases
	s.must(err)
	if again <= raised {
		t.Fatalf("the epoch goes from %d to %d", raised, again)
	}
	s.put(0, again, 2, "pods", object("b", "u", "2"))
	if state := s.acquire(0, "a"); state.Epoch != again+1 || state.Seq != 2 {
		t.Fatalf("state is %+v", state)
	}
}

// newUntilKnown checks that a slot is new until something was committed, or a rebuild has ended.
func newUntilKnown(t *testing.T, s *suite) {
	for range 2 {
		if !s.acquire(0, "a").New {
			t.Fatal("a slot without a batch is not new")
		}
	}
	epoch := s.acquire(0, "a").Epoch
	s.must(s.store.Rebuilt(s.ctx, 0, checkpoint.Commit{Epoch: epoch}))
	if state := s.acquire(0, "a"); state.New || state.Seq != 0 {
		t.Fatalf("after a rebuild from nothing the state is %+v", state)
	}
	s.put(1, s.acquire(1, "a").Epoch, 1, "pods")
	if s.acquire(1, "a").New {
		t.Fatal("a slot with a batch is new")
	}
}

func rebuildSlot(t *testing.T, s *suite) {
	old := s.acquire(0, "a").Epoch
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: old, Seq: 1,
		Positions: []change.Position{position("pods", "5"), position("nodes", "6")},
		Offsets:   change.Offsets{"k8s.control": {0: 3}, "k8s.old": {0: 1}},
		Streams: []checkpoint.StreamCommit{
			{Stream: "pods", Upserts: []checkpoint.Object{object("old", "u", "1")}},
			{Stream: "nodes", Upserts: []checkpoint.Object{object("n", "u", "1")}}}}))
	epoch := s.acquire(0, "a").Epoch
	mine := func(stream change.StreamID) bool { return strings.HasPrefix(string(stream), "pods") }
	page := func(keys ...string) []checkpoint.StreamCommit {
		c := checkpoint.StreamCommit{Stream: "pods"}
		for _, key := range keys {
			if gone, ok := strings.CutPrefix(key, "-"); ok {
				c.Deletes = append(c.Deletes, gone)
			} else {
				o := object(key, "u", "7")
				o.Body = checkpoint.Pack([]byte(`{"of":"` + key + `"}`))
				c.Upserts = append(c.Upserts, o)
			}
		}
		return []checkpoint.StreamCommit{c, {Stream: "pods@x", Upserts: []checkpoint.Object{object("x/y", "u", "8")}}}
	}
	end := checkpoint.Commit{Epoch: epoch, Seq: 40, Positions: []change.Position{position("pods", "77")},
		Offsets: change.Offsets{"k8s.control": {1: 9}}}

	s.wantError(s.store.Clear(s.ctx, 0, old, mine), checkpoint.ErrFenced)
	s.wantError(s.store.PutPage(s.ctx, 0, epoch, 0, page("a")), checkpoint.ErrBehind) // no rebuild has begun
	s.wantInventory("pods", object("old", "u", "1"))
	s.must(s.store.Clear(s.ctx, 0, epoch, mine))
	s.wantInventory("pods")
	s.wantPosition("pods", "")
	s.wantPosition("nodes", "6")
	s.must(s.store.PutPage(s.ctx, 0, epoch, 0, page("a", "b")))

	// The rebuild is interrupted, and begins again.
	state := s.acquire(0, "a")
	if epoch, end.Epoch = state.Epoch, state.Epoch; !state.New || state.Seq != 1 || state.Offsets["k8s.control"][0] != 3 {
		t.Fatalf("in the middle of a rebuild the state is %+v", state)
	}
	s.must(s.store.Clear(s.ctx, 0, epoch, mine))
	s.wantInventory("pods@x")
	s.must(s.store.PutPage(s.ctx, 0, epoch, 0, page("c", "d")))
	for _, number := range []int{0, 2} {
		s.wantError(s.store.PutPage(s.ctx, 0, epoch, number, page("e")), checkpoint.ErrBehind)
	}
	s.must(s.store.PutPage(s.ctx, 0, epoch, 1, page("a", "-d")))
	s.wantError(s.store.PutPage(s.ctx, 0, epoch-1, 2, page("f")), checkpoint.ErrFenced)
	s.wantError(s.store.Rebuilt(s.ctx, 1, end), checkpoint.ErrBehind)
	s.wantPosition("pods", "")
	s.must(s.store.Rebuilt(s.ctx, 2, end))
	s.wantInventory("pods", object("a", "u", "7"), object("c", "u", "7"))
	s.wantInventory("nodes", object("n", "u", "1"))
	s.wantPosition("pods", "77")
	bodies := Bodies(t, s.store, "pods", "a", "c", "d")
	if fmt.Sprint(bodies) != `map[a:{"of":"a"} c:{"of":"c"}]` {
		t.Fatalf("bodies are %s", bodies)
	}
	state = s.acquire(0, "a")
	if state.New || state.Seq != 40 || fmt.Sprint(state.Offsets) != "map[k8s.control:map[1:9]]" {
		t.Fatalf("after a rebuild the state is %+v", state)
	}
	if h := s.history(0); len(h) == 0 || h[0].Seq != 40 || time.Since(h[0].Time) > time.Minute {
		t.Fatalf("the history is %+v", h)
	}
	s.put(0, state.Epoch, 41, "pods", object("z", "u", "9"))
	s.wantError(s.store.Rebuilt(s.ctx, 2, end), checkpoint.ErrFenced)
}
