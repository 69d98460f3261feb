package checkpoint

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

// snappy is the number of the format, with which a compressed body begins. S2, an extension of Snappy, takes half as long again,
// and is no shorter for such short texts. A Pod of 4,260 bytes, half of which is text of its own, becomes 2,910 bytes.
const snappy = 2

// appendCompressed appends the compressed body to dst.
func appendCompressed(dst, body []byte) []byte {
	dst = append(dst, snappy)
	need := s2.MaxEncodedLen(len(body))
	if need < 0 { // above 4 GB: no API server has such an object
		panic(fmt.Sprintf("compress a body of %d bytes", len(body)))
	}
	start := len(dst)
	if cap(dst)-start < need {
		dst = append(dst, make([]byte, need)...)
	}
	return dst[:start+len(s2.EncodeSnappy(dst[start:start+need], body))]
}

// decompress returns the body that appendCompressed got. It uses dst if that has the capacity, else new memory.
func decompress(dst, compressed []byte) (body []byte, err error) {
	if len(compressed) == 0 || compressed[0] != snappy {
		return nil, fmt.Errorf("decompress a stored body: %.16q… was not compressed by this version", compressed)
	}
	body, err = s2.Decode(dst, compressed[1:])
	if err != nil {
		return nil, fmt.Errorf("decompress a stored body: %w", err)
	}
	return body, nil
}

// decompressedLen returns the length of what decompress returns, or 0 if it would fail.
func decompressedLen(compressed []byte) int {
	if len(compressed) == 0 {
		return 0
	}
	n, _ := s2.DecodedLen(compressed[1:])
	return n
}
