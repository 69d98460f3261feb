package checkpoint

import (
	"bytes"
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
	if body == nil {
		return Body{}
	}
	buffer := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buffer)
	base, err := decompress((*buffer)[:cap(*buffer)], b.Base)
	if err != nil {
		return Pack(body)
	}
	*buffer = base
	return follow(base, body)
}

// Again returns the Body to commit for a body that has not changed. An empty delta means that the base in the store is the body.
func Again(body, delta []byte) Body {
	if len(delta) > 0 {
		return Body{Delta: bytes.Clone(delta)}
	}
	return follow(body, body)
}

// follow returns a Body with a delta to an unpacked base, or a new base if too much differs.
func follow(base, body []byte) Body {
	if d := delta.Make(base, body, maxDelta(len(base))); d != nil {
		return Body{Delta: d}
	}
	return Pack(body)
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
	body, _, err = b.UnpackBefore(memory, nil)
	return body, err
}

// UnpackBefore is UnpackIn. If next is not nil, it also returns the result of Update for next.
func (b Body) UnpackBefore(memory func(n int) []byte, next []byte) (body []byte, updated Body, err error) {
	if b.KeepsBase() {
		return nil, updated, fmt.Errorf("%w: a body has a delta, and no base", ErrDamaged)
	}
	var base []byte
	if b.Delta == nil {
		base, err = decompress(memory(decompressedLen(b.Base)), b.Base)
		body = base
	} else {
		buffer := packBuffers.Get().(*[]byte)
		defer packBuffers.Put(buffer)
		if base, err = decompress((*buffer)[:cap(*buffer)], b.Base); err == nil {
			*buffer = base
			if body, err = delta.Apply(memory(delta.Len(b.Delta)), base, b.Delta); err != nil {
				err = fmt.Errorf("apply the delta of a body: %w", err)
			}
		}
	}
	if err != nil {
		return nil, updated, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if next != nil {
		updated = follow(base, next)
	}
	return body, updated, nil
}
