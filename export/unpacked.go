package export

import (
	"sync"

	"kubecdc/checkpoint"
)

// unpacked has the before-images of a batch, in blocks that the next batch uses again.
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

// unpack gives a body, which is valid until release.
func (u *unpacked) unpack(packed checkpoint.Body) ([]byte, error) {
	n := packed.UnpackedLen()
	if n > len(block{})/2 {
		return packed.Unpack(nil)
	}
	if n > len(u.left) {
		b := blockPool.Get().(*block)
		u.blocks, u.left = append(u.blocks, b), b[:]
	}
	body, err := packed.Unpack(u.left[:0:n])
	u.left = u.left[n:]
	return body, err
}
