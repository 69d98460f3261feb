// Package slab has memory to read into, which what was read shares, and which is used again when nobody holds it any more. It
// knows nothing of what is read.
package slab

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Slabs of these sizes are used again. A larger one, for what does not fit, is left to the garbage collector.
const (
	Smallest = 4 << 10
	Largest  = 64 << 10
)

// Slab is held once by whoever made it, and once by each part of it that is in use. A part that is never released leaves the slab
// to the garbage collector: that is safe, and costs an allocation. To release more often than to hold is not safe.
type Slab struct {
	Bytes   []byte // what was read so far
	holders atomic.Int32
}

// pools have the slabs of each size, a power of two, that nobody holds.
var pools [5]sync.Pool

func pool(size int) *sync.Pool { return &pools[bits.Len(uint(size-1)/Smallest)] }

// New gives an empty slab with room for at least so many bytes, held once.
func New(size int) *Slab {
	size = max(size, Smallest)
	if size <= Largest {
		size = 1 << bits.Len(uint(size-1))
		if s, ok := pool(size).Get().(*Slab); ok {
			return s.Hold()
		}
	}
	s := &Slab{Bytes: make([]byte, 0, size)}
	return s.Hold()
}

// Hold keeps the slab from being used again until one more Release.
func (s *Slab) Hold() *Slab {
	s.holders.Add(1)
	return s
}

// Release gives up a hold. The last one lets the slab be used again. A nil slab has nothing to release.
func (s *Slab) Release() {
	if s == nil || s.holders.Add(-1) > 0 || cap(s.Bytes) > Largest {
		return
	}
	s.Bytes = s.Bytes[:0]
	pool(cap(s.Bytes)).Put(s)
}
