package checkpoint

import (
	"fmt"
	"sync"

	"kubecdc/internal/delta"
)

// Body is an object's body as stores have it: a base, and the body's difference from that base. An update changes little of an
// object. So a commit has only a delta, which refers to the base in the store. If the delta would be too long, the commit has a
// new base instead.
//
// The zero Body has no body. In a commit, a Body with a delta and no base leaves the store's base unchanged.
type Body struct {
	Base  []byte // compressed
	Delta []byte // nil: the base is the body
}

var packBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Pack returns a Body whose base is body, in its own memory. For nil it returns the zero Body.
func Pack(body []byte) Body {
	if body == nil {
		return Body{}
	}
	buffer := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buffer)
	*buffer = appendCompressed((*buffer)[:0], body)
	return Body{Base: append(make([]byte, 0, len(*buffer)), *buffer...)}
}

// maxDelta is the maximal length of a delta to a base of n bytes: about half of the compressed base. To compress and store a new
// base takes several times the CPU.
func maxDelta(n int) int { return 128 + n/3 }

// Update returns a Body with b's base and a delta. If too much differs, or if b is damaged, the Body has a new base.
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

// IsZero reports whether the object has no body.
func (b Body) IsZero() bool { return b.Base == nil && b.Delta == nil }

// KeepsBase reports whether b, in a commit, leaves the store's base unchanged.
func (b Body) KeepsBase() bool { return b.Base == nil && b.Delta != nil }

// Len returns the number of bytes to store.
func (b Body) Len() int { return len(b.Base) + len(b.Delta) }

// Unpack returns the body in its own memory. It fails with ErrDamaged.
func (b Body) Unpack() ([]byte, error) {
	return b.UnpackIn(func(int) []byte { return nil })
}

// UnpackIn returns the body, in memory from the function memory if that has the capacity, else in new memory. It fails with
// ErrDamaged.
func (b Body) UnpackIn(memory func(n int) []byte) (body []byte, err error) {
	if b.KeepsBase() {
		return nil, fmt.Errorf("%w: a body has a delta, and no base", ErrDamaged)
	}
	if b.Delta == nil {
		if body, err = decompress(memory(decompressedLen(b.Base)), b.Base); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return body, nil
	}
	buffer := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buffer)
	base, err := decompress((*buffer)[:cap(*buffer)], b.Base)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	*buffer = base
	if body, err = delta.Apply(memory(delta.Len(b.Delta)), base, b.Delta); err != nil {
		return nil, fmt.Errorf("%w: apply the delta of a body: %w", ErrDamaged, err)
	}
	return body, nil
}
