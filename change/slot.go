package change

// SlotOf returns the slot that a stream belongs to. The hash must never change. Otherwise streams would move to other slots
// without resharding, and the tail of their former slot's log would be lost to them.
func SlotOf(stream StreamID, slots int) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(stream) {
		h = (h ^ uint32(stream[i])) * 16777619
	}
	return int(h % uint32(slots))
}
