package ownership

import (
	"maps"
	"slices"
)

// view is the basis of a replica's decisions. Replicas with the same view decide the same.
type view struct {
	self    string
	slots   int
	members []string       // ordered; self is one of them
	owners  map[int]string // owners of the slots that are not free, live or not
}

func (v view) held() map[string]int {
	held := map[string]int{}
	for slot, owner := range v.owners {
		if slot < v.slots {
			held[owner]++
		}
	}
	return held
}

func (v view) free() (free []int) {
	for slot := range v.slots {
		if v.owners[slot] == "" {
			free = append(free, slot)
		}
	}
	return free
}

// shares returns how many slots each member should hold. All get an equal number. The remainder goes, one each, to the members
// that already hold most, so that few slots move.
func (v view) shares() map[string]int {
	held, shares := v.held(), map[string]int{}
	order := slices.Clone(v.members)
	slices.SortStableFunc(order, func(a, b string) int { return held[b] - held[a] })
	for i, member := range order {
		shares[member] = v.slots / len(order)
		if i < v.slots%len(order) {
			shares[member]++
		}
	}
	return shares
}

// claims assigns the free slots to the members that hold less than their share, in turn, and returns those of this replica.
func (v view) claims() (mine []int) {
	missing := v.shares()
	for member, n := range v.held() {
		missing[member] -= n
	}
	free := v.free()
	for assigned := true; assigned && len(free) > 0; {
		assigned = false
		for _, member := range v.members {
			if missing[member] <= 0 || len(free) == 0 {
				continue
			}
			if member == v.self {
				mine = append(mine, free[0])
			}
			missing[member]--
			free, assigned = free[1:], true
		}
	}
	return mine
}

// surplus returns a slot to hand over, if this replica holds more than its share and another one less. It returns no slot that
// keeps selects, and none while one is free: the previous one may not have been claimed yet.
func (v view) surplus(keeps func(slot int) bool) (slot int, ok bool) {
	shares, held := v.shares(), v.held()
	if held[v.self] <= shares[v.self] || len(v.free()) > 0 {
		return 0, false
	}
	if !slices.ContainsFunc(v.members, func(m string) bool { return held[m] < shares[m] }) {
		return 0, false
	}
	for _, slot := range slices.Backward(slices.Sorted(maps.Keys(v.owners))) {
		if v.owners[slot] == v.self && slot < v.slots && !keeps(slot) {
			return slot, true
		}
	}
	return 0, false
}
