package batching

import (
	"sync"

	"kubecdc/internal/invariant"
)

// Blocks is memory for the before-images of a batch, which the next batch reuses.
type Blocks struct {
	blocks []*block
	left   []byte // rest of the last block
}

type block [BlockBytes]byte

// BlockBytes is the size of a block. A request for more than half of that gets its own memory.
const BlockBytes = 128 << 10

var blockPool = sync.Pool{New: func() any { return new(block) }}

// Release gives the blocks back.
func (u *Blocks) Release() {
	for _, b := range u.blocks {
		if invariant.Verified {
			clear(b[:]) // so that a test fails if something still uses it
		}
		blockPool.Put(b)
	}
	u.blocks, u.left = u.blocks[:0], nil
}

// Memory returns memory with a capacity, which is valid until Release. It returns nil if there is none.
func (u *Blocks) Memory(n int) []byte {
	if n > BlockBytes/2 {
		return nil
	}
	if n > len(u.left) {
		b := blockPool.Get().(*block)
		u.blocks, u.left = append(u.blocks, b), b[:]
	}
	memory := u.left[:0:n]
	u.left = u.left[n:]
	return memory
}
