// Package checkpointtest is the contract that every checkpoint.Store keeps, as tests. It knows a store only by
// that interface.
package checkpointtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Run runs the contract. open gives a store on a new, empty database that no other call has; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"the same cluster binds again, another is refused", rebind},
		{"a cluster is known by its uid or its CA, and stays what it was first known by", identities},
		{"of two clusters with one CA that bind at once, one is refused", bindAtOnce},
		{"the same log binds again, another is refused", bindLog},
		{"a topic keeps its number of partitions", pinPartitions},
		{"calls before Bind are refused", unbound},
		{"a new slot starts at epoch 1, batch 0", newSlot},
		{"a held lease keeps another owner out", heldLease},
		{"a lease that ran out, or was released, is free", freeLease},
		{"the same owner takes its own slot again at once", sameOwner},
		{"renewing keeps the slot", renew},
		{"slots are apart from each other", slotsApart},
		{"the former owner can neither commit, renew nor release", fenced},
		{"a store that does not know the epoch has forgotten it, and fences nobody", forgotten},
		{"a commit moves everything", commitMoves},
		{"a commit that does not follow the last one moves nothing", strayCommit},
		{"a check tells who owns the slot, and whether a batch is there", check},
		{"upsert, update, delete and re-create", lifecycle},
		{"streams are apart from each other", streamsApart},
		{"clusters are apart from each other", clustersApart},
		{"ten thousand objects in one commit", bigCommit},
		{"the inventory is ordered bytewise", bytewise},
		{"a visitor may stop, and may commit", visitor},
		{"the order of the inventory holds over pages", pages},
		{"resourceVersions of any length", longVersions},
		{"bodies come back as they were", bodies},
		{"offsets are merged", offsets},
		{"history keeps the last of each second, and is pruned but for the newest", history},
		{"history has all offsets, also of partitions that stood still, and after a prune", historyOffsets},
		{"positions keep their time", positionTimes},
		{"members are those whose heartbeat has not run out", members},
		{"a heartbeat tells who owns the slots", owners},
		{"the number of slots changes only for who owns all of them", layouts},
		{"the slots of clusters are apart from each other", otherLayout},
		{"streams to be written again keep their objects", rewrite},
		{"the first key of hashes is kept", hashKey},
		{"what may not be kept any more is rewritten or forgotten", redactBodies},
		{"only the owner rewrites what is kept", redactFenced},
		{"a stream that was removed is forgotten", removed},
		{"a stream that is not selected keeps its position and objects until it is forgotten", deselected},
		{"a stream without a position is known by its objects", brokenOff},
		{"an epoch is raised above another", raiseEpoch},
		{"a slot is new until it is known what the log has", newUntilKnown},
		{"a slot is rebuilt page by page", rebuildSlot},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(store.Close)
			test.run(t, &suite{store: store, ctx: t.Context(), t: t})
		})
	}
}

type suite struct {
	store checkpoint.Store
	ctx   context.Context
	t     *testing.T
}

const ttl = time.Minute

func (s *suite) bind() { Bind(s.t, s.store, "prod", "uid-1") }

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) acquire(slot int, owner string) checkpoint.SlotState {
	s.t.Helper()
	state, err := s.store.Acquire(s.ctx, slot, owner, ttl)
	s.must(err)
	return state
}

func (s *suite) wantError(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("error is %v, not %v", err, want)
	}
}

func (s *suite) wantHeld(err error, by string) {
	s.t.Helper()
	var held *checkpoint.HeldError
	if !errors.As(err, &held) {
		s.t.Fatalf("error is %v, not a HeldError", err)
	}
	if held.Owner != by || time.Until(held.Until) < 0 || time.Until(held.Until) > 2*ttl {
		s.t.Fatalf("held by %s until %s", held.Owner, held.Until)
	}
}

// put commits upserts to one stream, and its position.
func (s *suite) put(slot int, epoch int64, seq uint64, stream change.StreamID, objects ...checkpoint.Object) {
	s.t.Helper()
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Slot: slot, Epoch: epoch, Seq: seq,
		Streams: []checkpoint.StreamCommit{{Stream: stream, Upserts: objects}}}))
}

func (s *suite) inventory(stream change.StreamID) []checkpoint.Object {
	s.t.Helper()
	var all []checkpoint.Object
	s.must(s.store.Inventory(s.ctx, stream, func(o checkpoint.Object) error {
		all = append(all, o)
		return nil
	}))
	return all
}

func (s *suite) wantInventory(stream change.StreamID, want ...checkpoint.Object) {
	s.t.Helper()
	got := s.inventory(stream)
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Fatalf("inventory of %s is\n%v, not\n%v", stream, got, want)
	}
}

func (s *suite) wantPosition(stream change.StreamID, version change.ResourceVersion) {
	s.t.Helper()
	p, ok, err := s.store.Position(s.ctx, stream)
	s.must(err)
	if version == "" && ok || version != "" && (!ok || p.ResourceVersion != version || p.Stream != stream) {
		s.t.Fatalf("position of %s is %+v %v, not %q", stream, p, ok, version)
	}
}

func (s *suite) history(slot int) []checkpoint.Checkpoint {
	s.t.Helper()
	all, err := s.store.History(s.ctx, slot, 100)
	s.must(err)
	return all
}

func object(key, uid string, version change.ResourceVersion) checkpoint.Object {
	return checkpoint.Object{Key: key, UID: uid, ResourceVersion: version}
}

func at(stream change.StreamID, version change.ResourceVersion) change.Position {
	return change.Position{Stream: stream, ResourceVersion: version, Time: time.Unix(1700000000, 0).UTC()}
}

func unbound(t *testing.T, s *suite) {
	_, acquire := s.store.Acquire(s.ctx, 0, "a", ttl)
	_, _, position := s.store.Position(s.ctx, "pods")
	inventory := s.store.Inventory(s.ctx, "pods", func(checkpoint.Object) error { return nil })
	commit := s.store.Commit(s.ctx, checkpoint.Commit{Epoch: 1, Seq: 1})
	for name, err := range map[string]error{"Acquire": acquire, "Position": position, "Inventory": inventory, "Commit": commit} {
		if err == nil {
			t.Errorf("%s succeeded", name)
		}
	}
}

func newSlot(t *testing.T, s *suite) {
	s.bind()
	state := s.acquire(3, "a")
	if state.Epoch != 1 || state.Seq != 0 || len(state.Offsets) != 0 || !state.New {
		t.Fatalf("state is %+v", state)
	}
	s.wantPosition("pods", "")
	s.wantInventory("pods")
}

func heldLease(t *testing.T, s *suite) {
	s.bind()
	first := s.acquire(0, "a")
	_, err := s.store.Acquire(s.ctx, 0, "b", ttl)
	s.wantHeld(err, "a")
	s.put(0, first.Epoch, 1, "pods", object("a", "u", "1")) // the owner is not disturbed
}

func freeLease(t *testing.T, s *suite) {
	s.bind()
	_, err := s.store.Acquire(s.ctx, 0, "a", 0) // has run out at once
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
	s.bind()
	first := s.acquire(0, "a")
	s.put(0, first.Epoch, 1, "pods")
	second := s.acquire(0, "a")
	if second.Epoch != first.Epoch+1 || second.Seq != 1 {
		t.Fatalf("state is %+v", second)
	}
	s.wantError(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: first.Epoch, Seq: 2}), checkpoint.ErrFenced)
}

func renew(t *testing.T, s *suite) {
	s.bind()
	first, err := s.store.Acquire(s.ctx, 0, "a", 0)
	s.must(err)
	s.must(s.store.Renew(s.ctx, 0, first.Epoch, ttl)) // nobody took it meanwhile
	_, err = s.store.Acquire(s.ctx, 0, "b", ttl)
	s.wantHeld(err, "a")
}

func slotsApart(t *testing.T, s *suite) {
	s.bind()
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
	s.bind()
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

// everything is a commit that touches all that a commit can.
func everything(epoch int64, seq uint64) checkpoint.Commit {
	return checkpoint.Commit{Epoch: epoch, Seq: seq,
		Positions: []change.Position{at("pods", change.VersionOf(100+seq)), at("nodes", change.VersionOf(200+seq))},
		Offsets:   change.Offsets{"k8s.pods": {0: int64(seq * 10)}},
		Streams: []checkpoint.StreamCommit{
			{Stream: "pods", Upserts: []checkpoint.Object{object("b", "u2", "2")}, Deletes: []string{"a"}},
			{Stream: "nodes", Upserts: []checkpoint.Object{object("n", "u3", "3")}},
		}}
}

func commitMoves(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u", "1"))
	s.must(s.store.Commit(s.ctx, everything(epoch, 2)))
	s.wantInventory("pods", object("b", "u2", "2"))
	s.wantInventory("nodes", object("n", "u3", "3"))
	s.wantPosition("pods", "102")
	s.wantPosition("nodes", "202")
	all, err := s.store.Streams(s.ctx)
	s.must(err)
	if want := []change.Position{at("nodes", "202"), at("pods", "102")}; !reflect.DeepEqual(all, want) {
		t.Fatalf("streams are %v, not %v", all, want)
	}
	state := s.acquire(0, "a")
	if state.Seq != 2 || state.Offsets["k8s.pods"][0] != 20 {
		t.Fatalf("state is %+v", state)
	}
}

func strayCommit(t *testing.T, s *suite) {
	s.bind()
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

// A backup was restored: the slot has an older epoch than its owner, or is not there.
func forgotten(t *testing.T, s *suite) {
	s.bind()
	s.put(0, s.acquire(0, "a").Epoch, 1, "pods", object("a", "u", "1"))
	for _, slot := range []int{0, 9} {
		const mine = 7
		s.wantError(s.store.Commit(s.ctx, checkpoint.Commit{Slot: slot, Epoch: mine, Seq: 2}), checkpoint.ErrBehind)
		s.wantError(s.store.Check(s.ctx, slot, mine, 0), checkpoint.ErrBehind)
		s.wantError(s.store.Renew(s.ctx, slot, mine, ttl), checkpoint.ErrBehind)
		s.wantError(s.store.Release(s.ctx, slot, mine), checkpoint.ErrBehind)
		s.wantError(s.store.Rewrite(s.ctx, slot, mine, []change.StreamID{"pods"}), checkpoint.ErrBehind)
	}
	s.wantInventory("pods", object("a", "u", "1"))
}

func check(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(2, "a").Epoch
	s.must(s.store.Check(s.ctx, 2, epoch, 0))
	s.wantError(s.store.Check(s.ctx, 2, epoch, 1), checkpoint.ErrBehind)
	s.put(2, epoch, 1, "pods")
	s.must(s.store.Check(s.ctx, 2, epoch, 1))
	s.wantError(s.store.Check(s.ctx, 2, epoch, 2), checkpoint.ErrBehind)
	s.acquire(2, "a")
	s.wantError(s.store.Check(s.ctx, 2, epoch, 1), checkpoint.ErrFenced)
}

func lifecycle(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("ns/a", "u1", "1"), object("ns/b", "u2", "2"))
	s.put(0, epoch, 2, "pods", object("ns/a", "u1", "3"))
	s.wantInventory("pods", object("ns/a", "u1", "3"), object("ns/b", "u2", "2"))
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: []string{"ns/a", "never seen"}}}}))
	s.wantInventory("pods", object("ns/b", "u2", "2"))
	s.put(0, epoch, 4, "pods", object("ns/a", "u9", "5"))
	s.wantInventory("pods", object("ns/a", "u9", "5"), object("ns/b", "u2", "2"))
}

func streamsApart(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u1", "1"))
	s.put(0, epoch, 2, "pods@ns?labels=a=b", object("a", "u1", "2"))
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: []string{"a"}}}}))
	s.wantInventory("pods")
	s.wantInventory("pods@ns?labels=a=b", object("a", "u1", "2"))
}

func clustersApart(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	s.must(s.store.Commit(s.ctx, everything(epoch, 1)))
	Bind(s.t, s.store, "staging", "uid-2")
	s.wantPosition("pods", "")
	s.wantInventory("pods")
	if state := s.acquire(0, "b"); state.Epoch != 1 || state.Seq != 0 {
		t.Fatalf("state is %+v", state)
	}
	s.put(0, 1, 1, "pods", object("z", "u", "1"))
	s.bind()
	s.wantInventory("pods", object("b", "u2", "2"))
	s.wantPosition("pods", "101")
}

func bigCommit(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	const n = 10000
	objects := make([]checkpoint.Object, n)
	keys := make([]string, n)
	for i := range objects {
		keys[i] = fmt.Sprintf("ns/pod-%05d", i)
		objects[i] = object(keys[i], fmt.Sprintf("uid-%d", i), change.VersionOf(uint64(i+1)))
		objects[i].Body = fmt.Appendf(nil, `{"i":%d}`, i)
	}
	s.put(0, epoch, 1, "pods", objects...)
	s.put(0, epoch, 2, "pods", objects...)
	got, err := s.store.Bodies(s.ctx, "pods", keys)
	s.must(err)
	for i := range objects {
		if !bytes.Equal(got[keys[i]], objects[i].Body) {
			t.Fatalf("body of %s is %q", keys[i], got[keys[i]])
		}
		objects[i].Body = nil
	}
	s.wantInventory("pods", objects...)
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: keys[1:]}}}))
	s.wantInventory("pods", objects[0])
}

func bytewise(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	ordered := []string{"A/z", "a", "a-b/x", "a.b/x", "a/B", "a/b", "a/b-1", "a/b.1", "a0/x", "b/:system", "z", "ä/é", "日本/x"}
	var objects []checkpoint.Object
	for i := range ordered {
		objects = append(objects, object(ordered[len(ordered)-1-i], "u", "1"))
	}
	s.put(0, epoch, 1, "pods", objects...)
	var got []string
	for _, o := range s.inventory("pods") {
		got = append(got, o.Key)
	}
	if !reflect.DeepEqual(got, ordered) {
		t.Fatalf("order is %q, not %q", got, ordered)
	}
}

func visitor(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u", "1"), object("b", "u", "1"), object("c", "u", "1"))
	stop := errors.New("stop")
	var seen []string
	err := s.store.Inventory(s.ctx, "pods", func(o checkpoint.Object) error {
		seen = append(seen, o.Key)
		if o.Key == "b" {
			return stop
		}
		s.put(0, epoch, 2, "pods", object("a", "u", "2"))
		return nil
	})
	s.wantError(err, stop)
	if strings.Join(seen, "") != "ab" {
		t.Fatalf("visited %q", seen)
	}
}

func pages(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	var objects []checkpoint.Object
	for i := range 12345 {
		objects = append(objects, object(fmt.Sprintf("ns-%d/%06d", i/5000, i), "u", change.VersionOf(uint64(i))))
	}
	s.put(0, epoch, 1, "pods", objects...)
	s.put(0, epoch, 2, "zz", object("other", "u", "1"))
	s.wantInventory("pods", objects...)
}

func longVersions(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	long := change.ResourceVersion(strings.Repeat("98765432109876543210", 20))
	c := checkpoint.Commit{Epoch: epoch, Seq: 1, Positions: []change.Position{at("pods", long)},
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Upserts: []checkpoint.Object{object("a", "u", long)}}}}
	s.must(s.store.Commit(s.ctx, c))
	s.wantPosition("pods", long)
	s.wantInventory("pods", object("a", "u", long))
}

func bodies(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	want := map[string][]byte{
		"small":   []byte(`{"kind":"Pod"}`),
		"nul":     []byte("{\"a\":\"\\u0000\x00\xff\"}"),
		"empty":   {},
		"large":   bytes.Repeat([]byte(`{"name":"x","value":"y"},`), 100000),
		"replace": []byte("new"),
	}
	s.put(0, epoch, 1, "pods", checkpoint.Object{Key: "replace", UID: "u", ResourceVersion: "1", Body: []byte("old")},
		checkpoint.Object{Key: "forget", UID: "u", ResourceVersion: "1", Body: []byte("old")})
	objects := []checkpoint.Object{object("none", "u", "1"), object("forget", "u", "2")}
	keys := []string{"none", "unknown", "forget"}
	for key, body := range want {
		objects = append(objects, checkpoint.Object{Key: key, UID: "u", ResourceVersion: "2", Body: body})
		keys = append(keys, key)
	}
	s.put(0, epoch, 2, "pods", objects...)
	got, err := s.store.Bodies(s.ctx, "pods", keys)
	s.must(err)
	if len(got) != len(want) {
		t.Errorf("%d bodies, not %d", len(got), len(want))
	}
	for key, body := range want {
		if g, ok := got[key]; !ok || !bytes.Equal(g, body) {
			t.Errorf("body of %s is %.60q, not %.60q", key, g, body)
		}
	}
	if none, err := s.store.Bodies(s.ctx, "nodes", keys); err != nil || len(none) != 0 {
		t.Errorf("another stream has bodies: %v %v", none, err)
	}
}

func offsets(t *testing.T, s *suite) {
	s.bind()
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

func history(t *testing.T, s *suite) {
	s.bind()
	epoch := s.acquire(0, "a").Epoch
	other := s.acquire(1, "a").Epoch
	s.put(1, other, 1, "nodes")
	streams := []change.StreamID{"stream-0", "stream-1"}
	var seq uint64
	for len(s.history(0)) < 3 { // as many seconds
		seq++
		c := checkpoint.Commit{Epoch: epoch, Seq: seq, Positions: []change.Position{at(streams[seq%2], change.VersionOf(seq))}}
		s.must(s.store.Commit(s.ctx, c))
	}
	h, err := s.store.History(s.ctx, 0, 2)
	s.must(err)
	if len(h) != 2 || h[0].Seq != seq || h[0].Epoch != epoch || time.Since(h[0].Time).Abs() > ttl || h[1].Seq >= seq {
		t.Fatalf("history is %+v", h)
	}
	// All that moved in the second before, which saw many commits.
	last, before := h[1].Seq, h[1].Seq-1
	want := []change.Position{at(streams[last%2], change.VersionOf(last)), at(streams[before%2], change.VersionOf(before))}
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
}

func positionTimes(t *testing.T, s *suite) {
	s.bind()
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
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 4, Positions: []change.Position{at("new", "")}}))
	if p, ok, err := s.store.Position(s.ctx, "new"); err != nil || !ok || p.ResourceVersion != "" {
		t.Fatalf("position is %+v %v %v", p, ok, err)
	}
}
