package checkpointtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func unbound(t *testing.T, s *suite) {
	_, acquire := s.store.Acquire(s.ctx, 0, "a", ttl)
	_, _, position := s.store.Position(s.ctx, "pods")
	inventory := s.store.Inventory(s.ctx, "pods", func(checkpoint.Object) error { return nil })
	commit := s.store.Commit(s.ctx, checkpoint.Commit{Epoch: 1, Seq: 1})
	log := s.store.BindLog(s.ctx, "kafka:abc/prod")
	_, key := s.store.HashKey(s.ctx, []byte("early"))
	for name, err := range map[string]error{"Acquire": acquire, "Position": position, "Inventory": inventory, "Commit": commit,
		"BindLog": log, "HashKey": key} {
		if err == nil {
			t.Errorf("%s succeeded", name)
		}
	}
}

// everything returns a commit that changes all that a commit can.
func everything(epoch int64, seq uint64) checkpoint.Commit {
	return checkpoint.Commit{Epoch: epoch, Seq: seq,
		Positions: []change.Position{position("pods", change.VersionOf(100+seq)), position("nodes", change.VersionOf(200+seq))},
		Offsets:   change.Offsets{"k8s.pods": {0: int64(seq * 10)}},
		Streams: []checkpoint.StreamCommit{
			{Stream: "pods", Upserts: []checkpoint.Object{object("b", "u2", "2")}, Deletes: []string{"a"}},
			{Stream: "nodes", Upserts: []checkpoint.Object{object("n", "u3", "3")}},
		}}
}

func commitMoves(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u", "1"))
	s.must(s.store.Commit(s.ctx, everything(epoch, 2)))
	s.wantInventory("pods", object("b", "u2", "2"))
	s.wantInventory("nodes", object("n", "u3", "3"))
	s.wantPosition("pods", "102")
	s.wantPosition("nodes", "202")
	all, err := s.store.Streams(s.ctx)
	s.must(err)
	if want := []change.Position{position("nodes", "202"), position("pods", "102")}; !reflect.DeepEqual(all, want) {
		t.Fatalf("streams are %v, not %v", all, want)
	}
	state := s.acquire(0, "a")
	if state.Seq != 2 || state.Offsets["k8s.pods"][0] != 20 {
		t.Fatalf("state is %+v", state)
	}
}

func strayCommit(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods")
	s.put(0, epoch, 2, "pods", object("a", "u", "1"))
	for _, seq := range []uint64{0, 1, 2, 4, 5, 1 << 40} {
		s.wantError(s.store.Commit(s.ctx, everything(epoch, seq)), checkpoint.ErrBehind)
	}
	s.wantInventory("pods", object("a", "u", "1"))
	s.wantInventory("nodes")
	s.wantPosition("pods", "")
	if h := s.history(0); len(h) == 0 || h[0].Seq != 2 || len(h[0].Positions) != 0 {
		t.Fatalf("history is %+v", h)
	}
	if state := s.acquire(0, "a"); state.Seq != 2 || len(state.Offsets) != 0 {
		t.Fatalf("state is %+v", state)
	}
}

func offsets(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	for i, o := range []change.Offsets{
		{"k8s.pods": {0: 5, 1: 7}},
		nil,
		{"k8s.pods": {1: 9, 12: 1}, "k8s.control": {0: 3}},
	} {
		s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: uint64(i + 1), Offsets: o}))
	}
	want := change.Offsets{"k8s.pods": {0: 5, 1: 9, 12: 1}, "k8s.control": {0: 3}}
	if got := s.acquire(0, "a").Offsets; !reflect.DeepEqual(got, want) {
		t.Fatalf("offsets are %v, not %v", got, want)
	}
	if h := s.history(0); !reflect.DeepEqual(h[0].Offsets, want) {
		t.Fatalf("history is %+v", h)
	}
}

func positionTimes(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	for i, when := range []time.Time{time.Now(), {}, time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.FixedZone("x", 3600))} {
		p := change.Position{Stream: "pods", ResourceVersion: change.VersionOf(uint64(i + 1)), Time: when}
		s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: uint64(i + 1), Positions: []change.Position{p}}))
		got, ok, err := s.store.Position(s.ctx, "pods")
		s.must(err)
		if !ok || got.Time.Sub(when).Abs() > time.Microsecond {
			t.Fatalf("time is %s, not %s", got.Time, when)
		}
	}
	// A stream whose first list is running has a position without a resourceVersion.
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 4, Positions: []change.Position{position("new", "")}}))
	if p, ok, err := s.store.Position(s.ctx, "new"); err != nil || !ok || p.ResourceVersion != "" {
		t.Fatalf("position is %+v %v %v", p, ok, err)
	}
}

func longVersions(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	long := change.ResourceVersion(strings.Repeat("98765432109876543210", 20))
	c := checkpoint.Commit{Epoch: epoch, Seq: 1, Positions: []change.Position{position("pods", long)},
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Upserts: []checkpoint.Object{object("a", "u", long)}}}}
	s.must(s.store.Commit(s.ctx, c))
	s.wantPosition("pods", long)
	s.wantInventory("pods", object("a", "u", long))
}

func bigCommit(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	const n = 10000
	objects := make([]checkpoint.Object, n)
	keys := make([]string, n)
	for i := range objects {
		keys[i] = fmt.Sprintf("ns/pod-%05d", i)
		objects[i] = object(keys[i], fmt.Sprintf("uid-%d", i), change.VersionOf(uint64(i+1)))
		objects[i].Body = checkpoint.Pack(fmt.Appendf(nil, `{"i":%d}`, i))
	}
	s.put(0, epoch, 1, "pods", objects...)
	s.put(0, epoch, 2, "pods", objects...)
	got := Bodies(t, s.store, "pods", keys...)
	for i := range objects {
		if got[keys[i]] != fmt.Sprintf(`{"i":%d}`, i) {
			t.Fatalf("body of %s is %q", keys[i], got[keys[i]])
		}
		objects[i].Body = checkpoint.Body{}
	}
	s.wantInventory("pods", objects...)
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: keys[1:]}}}))
	s.wantInventory("pods", objects[0])
}
