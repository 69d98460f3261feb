package export

import "kubecdc/checkpoint"

// unpacked has the memory of a batch's before-images, which is used again for each batch.
type unpacked struct {
	blocks [][]byte
	used   int // blocks
	left   []byte
}

// Before-images of objects that are larger than half a block get memory of their own. More than maxBlocks are not kept: a
// batch of 4 MiB has as much of before-images.
const (
	blockBytes = 128 << 10
	maxBlocks  = 32
)

// reset makes the memory free for the next batch.
func (u *unpacked) reset() {
	if len(u.blocks) > maxBlocks {
		u.blocks = u.blocks[:maxBlocks:maxBlocks]
	}
	u.used, u.left = 0, nil
}

// unpack gives a body, which is valid until reset.
func (u *unpacked) unpack(b checkpoint.Body) ([]byte, error) {
	n := b.UnpackedLen()
	if n > blockBytes/2 {
		return b.Unpack(nil)
	}
	if n > len(u.left) {
		u.nextBlock()
	}
	body, err := b.Unpack(u.left[:0:n])
	u.left = u.left[n:]
	return body, err
}

func (u *unpacked) nextBlock() {
	if u.used == len(u.blocks) {
		u.blocks = append(u.blocks, make([]byte, blockBytes))
	}
	u.left = u.blocks[u.used]
	u.used++
}
