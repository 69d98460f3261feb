package ownership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// group is a set of replicas that act one after another, each on the store's current state.
type group struct {
	slots   int
	members []string
	owners  map[int]string
	moves   int
}

// round lets each replica act once, in random order. A slot that is handed over is free at once.
func (g *group) round(random *rand.Rand) (acted bool) {
	for _, i := range random.Perm(len(g.members)) {
		v := view{self: g.members[i], slots: g.slots, members: g.members, owners: g.owners}
		for _, slot := range v.claims() {
			g.owners[slot] = v.self
			acted = true
		}
		if slot, ok := v.surplus(func(int) bool { return false }); ok {
			delete(g.owners, slot)
			g.moves++
			acted = true
		}
	}
	return acted
}

func (g *group) converge(t *testing.T, random *rand.Rand) {
	t.Helper()
	for n := 0; g.round(random); n++ {
		if n > 4*g.slots+10 {
			t.Fatalf("the assignment does not converge: %v", g.owners)
		}
	}
	held := view{slots: g.slots, owners: g.owners}.held()
	least, most := g.slots, 0
	for _, m := range g.members {
		least, most = min(least, held[m]), max(most, held[m])
	}
	if len(g.owners) != g.slots || most-least > 1 {
		t.Fatalf("%d slots, %d members: %v", g.slots, len(g.members), held)
	}
}

func (g *group) join(name string) {
	g.members = append(g.members, name)
	slices.Sort(g.members)
}

// leave frees the slots at once. A killed replica's slots are freed when their leases expire, which makes no difference here.
func (g *group) leave(name string) {
	g.members = slices.DeleteFunc(g.members, func(m string) bool { return m == name })
	for slot, owner := range g.owners {
		if owner == name {
			delete(g.owners, slot)
		}
	}
}

func TestSlotsSpreadEvenlyAsReplicasJoinAndLeave(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		g := &group{slots: 1 + random.IntN(20), owners: map[int]string{}}
		for i := range 12 {
			if len(g.members) > 1 && random.IntN(2) == 0 {
				g.leave(g.members[random.IntN(len(g.members))])
			} else {
				g.join(fmt.Sprintf("%x-%d", random.Uint32(), i))
			}
			g.converge(t, random)
		}
	}
}

func TestAsFewSlotsAsPossibleMove(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	g := &group{slots: 6, owners: map[int]string{}}
	for i, want := range []int{0, 3, 2, 1, 1, 1, 0} { // slots that move when the next of seven replicas joins
		g.moves = 0
		g.join(string(rune('g' - i)))
		g.converge(t, random)
		if g.moves != want {
			t.Errorf("replica %d: %d slots moved, not %d", i+1, g.moves, want)
		}
	}
	g.moves = 0
	g.leave(g.owners[0])
	g.converge(t, random)
	if g.moves != 0 {
		t.Errorf("%d slots moved that had an owner", g.moves)
	}
}
