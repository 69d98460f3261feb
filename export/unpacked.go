package export

import (
	"sync"

	"kubecdc/checkpoint"
)

// unpacked has the before-images of a batch, and their bases, in blocks that the next batch uses again.
type unpacked struct {
	blocks []*block
	left   []byte // of the last block
}

// A before-image that takes more than half a block gets memory of its own.
type block [128 << 10]byte

var blockPool = sync.Pool{New: func() any { return new(block) }}

// release gives the blocks back.
func (u *unpacked) release() {
	for _, b := range u.blocks {
		blockPool.Put(b)
	}
	u.blocks, u.left = u.blocks[:0], nil
}

// unpack gives the base of a body, and the body. Both are valid until release.
func (u *unpacked) unpack(b checkpoint.Body) (base, body []byte, err error) {
	return b.UnpackIn(u.memory)
}

func (u *unpacked) memory(n int) []byte {
	if n > len(block{})/2 {
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
