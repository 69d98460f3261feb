package checkpoint

import (
	"sync"

	"kubecdc/checkpoint/internal/compress"
)

// Body is an object's body, packed. It is packed once, when the object has changed. Stores keep it as it is; the next change of
// the object has it as its before-image.
type Body []byte

var packBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Pack packs a body, in memory of its own. The Body of nil is nil.
func Pack(body []byte) Body {
	if body == nil {
		return nil
	}
	buffer := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buffer)
	*buffer = compress.Append((*buffer)[:0], body)
	return append(make(Body, 0, len(*buffer)), *buffer...)
}

// Unpack gives what was packed: in dst, if that has the capacity, and in memory of its own otherwise.
func (b Body) Unpack(dst []byte) ([]byte, error) { return compress.Decode(dst, b) }

// UnpackedLen is the length of what Unpack gives; 0 if it fails.
func (b Body) UnpackedLen() int { return compress.DecodedLen(b) }
