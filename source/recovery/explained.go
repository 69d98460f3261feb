package recovery

import "sync"

// explained knows the revisions of a gap (from, to] at which the collection can't have changed in a way that is not known
// yet. A revision writes one key, so a revision at which a change is known, of this collection or of another one of the same
// resource (shared.go), holds no other change. It needs no read, and an object is at such a revision in the same state as at
// the one before. This does not hold for Events, which expire several at a revision, and is not known of aggregated servers:
// for both no revision is ever explained.
type explained struct {
	mu    sync.Mutex
	from  uint64
	below []uint32 // below[i]: of revision from+i, how far down to look next; itself while it is not explained
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
	for i := start; x.below[i] != root && i != root; { // shorten the way for the next call
		i, x.below[i] = x.below[i], root
	}
	return x.from + uint64(root)
}
