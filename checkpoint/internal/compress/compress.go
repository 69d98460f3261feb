// Package compress compresses the bodies that checkpoint stores keep.
package compress

import (
	_ "embed"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// A compressed body begins with the number of its format. Bodies are written as Snappy, of which S2 is an extension that leaves
// no fewer bytes of so short a text and takes half as long again: of a Pod of 4,260 bytes, half of which is text of its own, 2,910
// are left (the bench's Pods).
//
// Format 1 is S2 with a dictionary of what objects of the built-in resources are made of: 2,050 bytes of the same Pod, in 6 us.
// Checkpoints of earlier versions have it. Stored bodies stay readable only as long as their dictionary does: never change it.
const (
	withDictionaryOne = 1
	plain             = 2
)

//go:embed dictionary.txt
var dictionaryText []byte

var dictionaryOne = s2.MakeDict(dictionaryText, nil)

// Append compresses body and appends it to dst.
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
	format := byte(0)
	if len(compressed) > 0 {
		format = compressed[0]
	}
	switch format {
	case withDictionaryOne:
		body, err = dictionaryOne.Decode(dst, compressed[1:])
	case plain:
		body, err = s2.Decode(dst, compressed[1:])
	default:
		return nil, fmt.Errorf("decompress a stored body: %.16q… was not compressed by this version", compressed)
	}
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
