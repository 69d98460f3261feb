package recovery

import "sync"

// explained has the revisions of a gap (from, to] whose write is known. A revision writes one key, so if a change at a revision
// is known, in this collection or in another one of the same resource (shared.go), nothing else changed there. No read is
// needed at that revision: every other object is in the same state as at the revision before. This does not hold for Events,
// since several of them expire at one revision, and is not known of aggregated servers: for both no revision is explained.
type explained struct {
	mu    sync.Mutex
	from  uint64
	below []uint32 // below[i]: where to look next below revision from+i, if that is explained; else i
	never bool     // a revision may write several keys
}

func newExplained(from, to uint64, never bool) *explained {
	x := &explained{from: from, below: make([]uint32, to-from+1), never: never}
	for i := range x.below {
		x.below[i] = uint32(i)
	}
	return x
}

// add records that the change at the revision is known.
func (x *explained) add(revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := revision - x.from; !x.never && revision > x.from && x.below[i] == uint32(i) {
		x.below[i] = uint32(i - 1)
	}
}

// highest returns the newest revision at or below this one that is not explained, or from if all are.
func (x *explained) highest(revision uint64) uint64 {
	if revision <= x.from {
		return x.from
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	start := uint32(revision - x.from)
	root := start
	for x.below[root] != root {
		root = x.below[root]
	}
	for i := start; x.below[i] != root && i != root; { // path compression, as in a union-find
		i, x.below[i] = x.below[i], root
	}
	return x.from + uint64(root)
}
