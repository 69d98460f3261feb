package delta

import (
	"encoding/binary"
	"sync"
)

// index finds pieces of a base after a place that moves forward.
type index struct {
	heads [1 << indexBits]uint32 // the places in the base plus 1, by the hash of eight bytes
	end   int                    // the index has the base up to here
}

const (
	indexBits = 11
	indexStep = 8    // one piece for so many bytes
	ahead     = 4096 // how far ahead pieces are found
)

var indexes = sync.Pool{New: func() any { return new(index) }}

func hashOf(piece uint64) uint64 { return piece * 0x9e3779b97f4a7c15 >> (64 - indexBits) }

// grow adds the pieces near a place and after it. If several have the same hash, the first one remains.
func (x *index) grow(base []byte, place int) {
	x.end = max(x.end, place)
	for ; x.end < min(place+ahead, len(base)-minCopy+1); x.end += indexStep {
		head := &x.heads[hashOf(binary.LittleEndian.Uint64(base[x.end:]))]
		if int(*head) <= place {
			*head = uint32(x.end + 1)
		}
	}
}

// find returns the offset of a piece in the base, at or after a place. It returns -1 if the index does not know the piece.
func (x *index) find(base []byte, place int, piece uint64) int {
	i := int(x.heads[hashOf(piece)]) - 1
	if i < place || binary.LittleEndian.Uint64(base[i:]) != piece {
		return -1
	}
	return i
}
