package checkpoint

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

// A compressed body begins with the number of its format, Snappy: S2, its extension, leaves no fewer bytes of so short a text and
// takes half as long again. Of a Pod of 4,260 bytes, half of which is text of its own, 2,910 are left.
const snappy = 2

// appendCompressed appends a body, compressed.
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

// decompress gives back what appendCompressed was given: in dst, if it has room for it, and in memory of its own otherwise.
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

// decompressedLen is the length of what decompress gives; 0 if it fails.
func decompressedLen(compressed []byte) int {
	if len(compressed) == 0 {
		return 0
	}
	n, _ := s2.DecodedLen(compressed[1:])
	return n
}
