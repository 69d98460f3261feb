package ownership

import "kubecdc/change"

// SlotOf says which slot a stream belongs to. Another hash would move streams between slots without a change of their number,
// and what a slot's tail tells would be lost to them.
func SlotOf(stream change.StreamID, slots int) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(stream) {
		h = (h ^ uint32(stream[i])) * 16777619
	}
	return int(h % uint32(slots))
}
