// Package slab has memory that is used again when nobody holds it any more. It knows nothing of what lies in it.
package slab

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Slabs of these sizes are used again. Larger ones are left to the garbage collector.
const (
	smallest = 1 << 10
	largest  = 4 << 20
)

// Slab has one hold for its maker, and one for each of its parts that is in use. A hold that is never released leaves the slab to
// the garbage collector: that is safe, and costs an allocation. Releasing more often than holding is not safe.
type Slab struct {
	Bytes   []byte
	holders atomic.Int32
}

// pools have the slabs that nobody holds. Each pool has slabs of a power of two, up to less than twice that.
var pools [13]sync.Pool

// New gives an empty slab with room for at least so many bytes, held once.
func New(size int) *Slab {
	if size = max(size, smallest); size <= largest {
		size = 1 << bits.Len(uint(size-1))
		if s, ok := pool(size).Get().(*Slab); ok {
			return s.Hold()
		}
	}
	s := &Slab{Bytes: make([]byte, 0, size)}
	return s.Hold()
}

func pool(size int) *sync.Pool { return &pools[bits.Len(uint(size))-bits.Len(smallest)] }

// Hold keeps the slab from being used again until one more Release.
func (s *Slab) Hold() *Slab {
	s.holders.Add(1)
	return s
}

// Release gives up a hold. After the last one the slab may be used again. A nil slab has nothing to release.
func (s *Slab) Release() {
	if s == nil || s.holders.Add(-1) > 0 {
		return
	}
	s.Bytes = s.Bytes[:0]
	if size := cap(s.Bytes); size >= smallest && size < 2*largest {
		pool(size).Put(s)
	}
}
