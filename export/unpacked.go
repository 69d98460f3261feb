package export

import (
	"sync"

	"kubecdc/checkpoint"
)

// unpacked has the before-images of a batch in blocks that the next batch uses again.
type unpacked struct {
	blocks []*block
	left   []byte // of the last block
	base   []byte // of the last body that had a delta
	lend   bool   // the next memory is that of base
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

// unpack gives the base of a body, and the body, which is valid until release. So is the base, if it is kept; else it is valid until
// the next call.
func (u *unpacked) unpack(b checkpoint.Body, keepBase bool) (base, body []byte, err error) {
	u.lend = b.Delta != nil && !keepBase // the base is asked for first
	base, body, err = b.UnpackIn(u.memory)
	if b.Delta != nil && !keepBase && cap(base) <= len(block{}) {
		u.base = base
	}
	return base, body, err
}

func (u *unpacked) memory(n int) []byte {
	if u.lend {
		u.lend = false
		return u.base[:0]
	}
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
