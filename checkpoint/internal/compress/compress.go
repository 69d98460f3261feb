// Package compress compresses the bodies that checkpoint stores keep.
package compress

import (
	_ "embed"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// Bodies are a few kilobytes of JSON each, and nearly all of it is names of fields, which a compressor that begins
// with nothing can't know. So S2 is given a dictionary: what objects of the built-in resources are made of. Of a Pod of
// 4,260 bytes, half of which is text of its own, that leaves 2,050 in 6 us (the bench's Pods; docs/performance.md).
//
// A compressed body begins with the number of its dictionary. Stored bodies stay readable only as long as that
// dictionary does: never change a dictionary that was released, add another.
const dictionaryOne = 1

//go:embed dictionary.txt
var dictionaryText []byte

var dictionary = s2.MakeDict(dictionaryText, nil)

// Append compresses body and appends it to dst.
func Append(dst, body []byte) []byte {
	dst = append(dst, dictionaryOne)
	need := s2.MaxEncodedLen(len(body))
	if need < 0 { // above 4 GB: no API server has such an object
		panic(fmt.Sprintf("compress a body of %d bytes", len(body)))
	}
	start := len(dst)
	if cap(dst)-start < need {
		dst = append(dst, make([]byte, need)...)
	}
	return dst[:start+len(dictionary.Encode(dst[start:start+need], body))]
}

// Decode gives back what Append was given, in memory of its own.
func Decode(compressed []byte) ([]byte, error) {
	if len(compressed) == 0 || compressed[0] != dictionaryOne {
		return nil, fmt.Errorf("decompress a stored body: %.16q… was not compressed by this version", compressed)
	}
	body, err := dictionary.Decode(nil, compressed[1:])
	if err != nil {
		return nil, fmt.Errorf("decompress a stored body: %w", err)
	}
	return body, nil
}
