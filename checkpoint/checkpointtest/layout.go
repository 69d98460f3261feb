package checkpointtest

import (
	"errors"
	"reflect"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func over(slots int, split ...string) checkpoint.Layout { return checkpoint.NewLayout(slots, split) }

func (s *suite) layout(want, have checkpoint.Layout) {
	s.t.Helper()
	got, err := s.store.Layout(s.ctx, want)
	s.must(err)
	if got != have {
		s.t.Fatalf("the layout is %s, not %s", got, have)
	}
}

func (s *suite) wantLayout(err error, want, have checkpoint.Layout) {
	s.t.Helper()
	var other *checkpoint.LayoutError
	if !errors.As(err, &other) || other.Want != want || other.Have != have {
		s.t.Fatalf("error is %v, not that %s is wanted and %s there", err, want, have)
	}
}

func layouts(t *testing.T, s *suite) {
	s.bind()
	s.layout(over(2), over(2))
	s.layout(over(4), over(2))
	zero := s.acquire(0, "a")
	s.put(0, zero.Epoch, 1, "pods")
	zero.Seq = 1
	owned := func(epoch int64, seq uint64) map[int]checkpoint.SlotState {
		return map[int]checkpoint.SlotState{0: zero, 1: {Epoch: epoch, Seq: seq}}
	}
	one := s.acquire(1, "a").Epoch
	change := func(from, to checkpoint.Layout, slots map[int]checkpoint.SlotState) error {
		return s.store.Relayout(s.ctx, checkpoint.Relayout{From: from, To: to, Slots: slots})
	}
	s.wantLayout(change(over(3), over(4), owned(one, 0)), over(3), over(2))
	s.wantLayout(change(over(2, "pods@a"), over(4), owned(one, 0)), over(2, "pods@a"), over(2))
	s.wantError(change(over(2), over(4), owned(one-1, 0)), checkpoint.ErrFenced)
	s.wantError(change(over(2), over(4), map[int]checkpoint.SlotState{0: zero}), checkpoint.ErrFenced)
	s.wantError(change(over(2), over(4), owned(one, 1)), checkpoint.ErrBehind)
	s.layout(over(2), over(2))
	s.must(change(over(2), over(4), owned(one, 0)))
	s.layout(over(4), over(4))
	s.acquire(3, "a")
	s.must(change(over(4), over(4, "pods@b", "pods@a"), s.slots(4)))
	s.layout(over(4), over(4, "pods@a", "pods@b"))
	s.acquire(3, "a") // adopted
}

func otherLayout(t *testing.T, s *suite) {
	s.bind()
	s.layout(over(1), over(1))
	s.must(s.store.Relayout(s.ctx, checkpoint.Relayout{From: over(1), To: over(3), Slots: s.slots(1)}))
	s.must(s.store.Relayout(s.ctx, checkpoint.Relayout{From: over(3), To: over(2, "pods@a"), Slots: s.slots(3)}))
	s.must(s.store.Bind(s.ctx, "staging", "uid-2"))
	s.layout(over(1), over(1)) // of the other cluster
	s.bind()
	s.layout(over(1), over(2, "pods@a")) // not adopted: nothing to compare with
	s.acquire(0, "a")
	s.layout(over(2, "pods@a"), over(2, "pods@a"))
	s.must(s.store.Relayout(s.ctx, checkpoint.Relayout{From: over(2, "pods@a"), To: over(5), Slots: s.slots(2)}))
	s.layout(over(5), over(5))
}

// slots takes n of them.
func (s *suite) slots(n int) map[int]checkpoint.SlotState {
	s.t.Helper()
	slots := map[int]checkpoint.SlotState{}
	for slot := range n {
		slots[slot] = s.acquire(slot, "a")
	}
	return slots
}

// splitAndMerged moves namespace team to a stream of its own and back. Names that only begin like it stay.
func splitAndMerged(t *testing.T, s *suite) {
	s.bind()
	s.layout(over(1), over(1))
	epoch := s.acquire(0, "a").Epoch
	stay := []checkpoint.Object{object("tea/m", "u1", "1"), object("team-a/x", "u2", "2"), object("team.a/x", "u3", "3")}
	rest := []checkpoint.Object{object("team0/x", "u6", "6"), object("teams/x", "u7", "7")}
	move := checkpoint.Object{Key: "team/a", UID: "u4", ResourceVersion: "4", Body: []byte(`{"a":1}`)}
	s.put(0, epoch, 1, "pods", append(append(stay, move, object("team/b", "u5", "5")), rest...)...)
	s.put(0, epoch, 2, "pods@team", object("team/old", "u9", "1")) // of an earlier time
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3, Positions: []change.Position{at("pods", "10"), at("pods@team", "2")}}))

	split := checkpoint.Relayout{From: over(1), To: over(1, "pods@team"), Slots: s.slots(1),
		Moves:     []checkpoint.Move{{Namespace: "team", From: "pods", To: "pods@team", Anew: true}},
		Positions: []change.Position{at("pods@team", "10")}}
	fenced := split
	fenced.Slots = map[int]checkpoint.SlotState{0: {Epoch: epoch, Seq: 3}}
	s.wantError(s.store.Relayout(s.ctx, fenced), checkpoint.ErrFenced)
	s.wantInventory("pods@team", object("team/old", "u9", "1"))
	s.wantPosition("pods@team", "2")
	s.must(s.store.Relayout(s.ctx, split))
	s.wantInventory("pods", append(stay, rest...)...)
	s.wantInventory("pods@team", object("team/a", "u4", "4"), object("team/b", "u5", "5"))
	s.wantPosition("pods@team", "10")
	if bodies, err := s.store.Bodies(s.ctx, "pods@team", []string{"team/a"}); err != nil || string(bodies["team/a"]) != `{"a":1}` {
		t.Fatalf("bodies are %q %v", bodies, err)
	}

	merged := at("pods", "10")
	merged.Floors = change.Floors{"team": "12"}
	s.must(s.store.Relayout(s.ctx, checkpoint.Relayout{From: over(1, "pods@team"), To: over(1), Slots: s.slots(1),
		Moves:     []checkpoint.Move{{Namespace: "team", From: "pods@team", To: "pods"}},
		Positions: []change.Position{merged}, Ended: []string{"pods@team", "never seen"}}))
	s.wantInventory("pods", append(append(stay, object("team/a", "u4", "4"), object("team/b", "u5", "5")), rest...)...)
	s.wantInventory("pods@team")
	s.wantPosition("pods@team", "")
	s.wantFloors("pods", "10", merged.Floors)
}

// joined moves objects to a stream that has some of them: those that move are newer.
func joined(t *testing.T, s *suite) {
	s.bind()
	s.layout(over(1), over(1))
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("team/a", "u2", "9"), object("team/b", "u3", "8"))
	s.put(0, epoch, 2, "pods@team", object("team/a", "u1", "1"), object("team/c", "u4", "2"))
	s.must(s.store.Relayout(s.ctx, checkpoint.Relayout{From: over(1), To: over(1, "pods@team"), Slots: s.slots(1),
		Moves: []checkpoint.Move{{Namespace: "team", From: "pods", To: "pods@team"}}}))
	s.wantInventory("pods")
	s.wantInventory("pods@team", object("team/a", "u2", "9"), object("team/b", "u3", "8"), object("team/c", "u4", "2"))
}

func (s *suite) wantFloors(stream, version string, floors change.Floors) {
	s.t.Helper()
	p, _, err := s.store.Position(s.ctx, stream)
	s.must(err)
	if p.ResourceVersion != version || !reflect.DeepEqual(p.Floors, floors) {
		s.t.Fatalf("position of %s is %+v, not %s with floors %v", stream, p, version, floors)
	}
	all, err := s.store.Streams(s.ctx)
	s.must(err)
	for _, p := range all {
		if p.Stream == stream && !reflect.DeepEqual(p.Floors, floors) {
			s.t.Fatalf("among the streams the position of %s is %+v, not with floors %v", stream, p, floors)
		}
	}
}

func floors(t *testing.T, s *suite) {
	s.bind()
	epoch, seq := s.acquire(0, "a").Epoch, uint64(0)
	commit := func(version string, floors change.Floors) {
		p := at("pods", version)
		p.Floors = floors
		seq++
		s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: seq, Positions: []change.Position{at("nodes", version), p}}))
		s.wantFloors("pods", version, floors)
		s.wantFloors("nodes", version, nil)
	}
	all := change.Floors{change.AllOthers: "98765432109876543210", "team": "12", "new": ""}
	commit("10", all)
	commit("11", change.Floors{"team": "12"})
	commit("13", nil)
	commit("14", all)
	s.must(s.store.Rewrite(s.ctx, 0, epoch, []string{"pods"}))
	s.wantFloors("pods", "", nil)
}
