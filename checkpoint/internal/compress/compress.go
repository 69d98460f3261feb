// Package compress compresses the bodies that checkpoint stores keep.
package compress

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

// A compressed body begins with the number of its format, Snappy: S2, its extension, leaves no fewer bytes of so short a text and
// takes half as long again. Of a Pod of 4,260 bytes, half of which is text of its own, 2,910 are left.
const plain = 2

func Append(dst, body []byte) []byte {
	dst = append(dst, plain)
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

// Decode gives back what Append was given: in dst, if it has room for it, and in memory of its own otherwise.
func Decode(dst, compressed []byte) (body []byte, err error) {
	if len(compressed) == 0 || compressed[0] != plain {
		return nil, fmt.Errorf("decompress a stored body: %.16q… was not compressed by this version", compressed)
	}
	body, err = s2.Decode(dst, compressed[1:])
	if err != nil {
		return nil, fmt.Errorf("decompress a stored body: %w", err)
	}
	return body, nil
}

// DecodedLen is the length of what Decode gives; 0 if it fails.
func DecodedLen(compressed []byte) int {
	if len(compressed) == 0 {
		return 0
	}
	n, _ := s2.DecodedLen(compressed[1:])
	return n
}
