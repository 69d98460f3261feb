package inventory

import (
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
)

// unpacked has the before-images of a batch.
type unpacked struct {
	batching.Blocks
	base []byte // of the last body that had a delta
	lend bool   // the next memory is that of base
}

// unpack gives the base of a body, and the body, which is valid until Release. So is the base, if it is kept; else it is valid until
// the next call.
func (u *unpacked) unpack(b checkpoint.Body, keepBase bool) (base, body []byte, err error) {
	u.lend = b.Delta != nil && !keepBase // the base is asked for first
	base, body, err = b.UnpackIn(u.memory)
	if b.Delta != nil && !keepBase && cap(base) <= batching.BlockBytes {
		u.base = base
	}
	return base, body, err
}

func (u *unpacked) memory(n int) []byte {
	if u.lend {
		u.lend = false
		return u.base[:0]
	}
	return u.Memory(n)
}
