package checkpoint

import (
	"fmt"
	"sync"

	"kubecdc/internal/delta"
)

// Body is an object's body as stores keep it: a base, and what of the body differs from that. An update changes little of an
// object, so it is stored as a delta, and its base stays as it is, until the delta would be too long. A delta is always of the
// base that the store has.
//
// The zero Body is that of an object without one. In a commit, a Body that has a delta and no base keeps the store's base.
type Body struct {
	Base  []byte // packed
	Delta []byte // nil: the base is the body
}

var packBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Pack makes a body the base of a Body, in memory of its own. Of nil it makes the zero Body.
func Pack(body []byte) Body {
	if body == nil {
		return Body{}
	}
	buffer := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buffer)
	*buffer = appendCompressed((*buffer)[:0], body)
	return Body{Base: append(make([]byte, 0, len(*buffer)), *buffer...)}
}

// maxDelta is how long a delta of a base of n bytes may be: about half of what the base takes, packed. To pack a new base, and to
// store it, takes several times the CPU.
func maxDelta(n int) int { return 128 + n/3 }

// Update makes a Body that keeps b's base. If too much differs from that, or it can't be unpacked, it has a new base.
func (b Body) Update(body []byte) Body {
	buffer := packBuffers.Get().(*[]byte)
	base, err := decompress((*buffer)[:cap(*buffer)], b.Base)
	if err == nil {
		*buffer = base
	}
	var d []byte
	if err == nil && body != nil {
		d = delta.Make(base, body, maxDelta(len(base)))
	}
	packBuffers.Put(buffer)
	if d == nil {
		return Pack(body)
	}
	return Body{Delta: d}
}

// IsZero reports that the object has no body.
func (b Body) IsZero() bool { return b.Base == nil && b.Delta == nil }

// KeepsBase reports that b, in a commit, keeps the store's base.
func (b Body) KeepsBase() bool { return b.Base == nil && b.Delta != nil }

// Len is how many bytes are stored.
func (b Body) Len() int { return len(b.Base) + len(b.Delta) }

// Unpack gives the body, in memory of its own.
func (b Body) Unpack() ([]byte, error) {
	_, body, err := b.UnpackIn(func(int) []byte { return nil })
	return body, err
}

// UnpackIn gives the base and the body. memory is asked for memory of a capacity; if it gives less, they get memory of their own.
// It fails with ErrDamaged.
func (b Body) UnpackIn(memory func(n int) []byte) (base, body []byte, err error) {
	if b.KeepsBase() {
		return nil, nil, fmt.Errorf("%w: a body has a delta, and no base", ErrDamaged)
	}
	if base, err = decompress(memory(decompressedLen(b.Base)), b.Base); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if b.Delta == nil {
		return base, base, nil
	}
	if body, err = delta.Apply(memory(delta.Len(b.Delta)), base, b.Delta); err != nil {
		return nil, nil, fmt.Errorf("%w: apply the delta of a body: %w", ErrDamaged, err)
	}
	return base, body, nil
}
