package delta

import (
	"encoding/binary"
	"sync"
)

// index finds pieces of a base behind a place that goes forward.
type index struct {
	heads [1 << indexBits]uint32 // by the hash of eight bytes: where they are in the base, plus 1
	end   int                    // the index has the base up to here
}

const (
	indexBits = 11
	indexStep = 8    // one piece in so many bytes
	ahead     = 4096 // how far ahead pieces are found
)

var indexes = sync.Pool{New: func() any { return new(index) }}

func hashOf(piece uint64) uint64 { return piece * 0x9e3779b97f4a7c15 >> (64 - indexBits) }

// grow takes in what is near behind a place. Of pieces with the same hash it keeps the first.
func (x *index) grow(base []byte, at int) {
	x.end = max(x.end, at)
	for ; x.end < min(at+ahead, len(base)-minCopy+1); x.end += indexStep {
		head := &x.heads[hashOf(binary.LittleEndian.Uint64(base[x.end:]))]
		if int(*head) <= at {
			*head = uint32(x.end + 1)
		}
	}
}

// find returns where a piece is in the base, at a place or behind it; -1: it is not known.
func (x *index) find(base []byte, at int, piece uint64) int {
	i := int(x.heads[hashOf(piece)]) - 1
	if i < at || binary.LittleEndian.Uint64(base[i:]) != piece {
		return -1
	}
	return i
}
