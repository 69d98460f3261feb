package rawjson

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// Sum returns a hash of a value that was checked before. The order of an object's members makes no difference, since a log in
// Avro has them in the order of its schema.
func Sum(seed maphash.Seed, value []byte) uint64 {
	c := NewCursor(value)
	switch {
	case c.AtObject():
		sum := uint64(1)
		c.Enter()
		for name, more := c.Member(); more; name, more = c.Member() {
			sum += mix(maphash.Bytes(seed, name), Sum(seed, c.Skip()))
		}
		return sum
	case c.AtArray():
		sum := uint64(2)
		for c.Enter(); c.Element(); {
			sum = mix(sum, Sum(seed, c.Skip()))
		}
		return sum
	}
	return maphash.Bytes(seed, c.Rest())
}

// mix combines two hashes, whose order makes a difference (github.com/wangyi-fudan/wyhash).
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x2d358dccaa6c78a5, b^0x8bb84b93962eacc9)
	return high ^ low
}

var sameSeed = maphash.MakeSeed()

// Same reports whether two values are equal except for the order of members. Few unequal values reach Sum, since nearly all have
// other bytes.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return len(a) == len(b) && len(a) > 0 && nests[a[0]] > 0 && sameBytes(a, b) && Sum(sameSeed, a) == Sum(sameSeed, b)
}

// sameBytes reports whether two texts of one length have the same bytes in any order. In most texts the numbers of a few frequent
// bytes show that they don't, and bytes.Count is fast.
func sameBytes(a, b []byte) bool {
	for _, frequent := range [][]byte{{'e'}, {'1'}, {'a'}} {
		if bytes.Count(a, frequent) != bytes.Count(b, frequent) {
			return false
		}
	}
	var counts [256]int32
	count := func(a, b []byte) {
		for i, c := range a {
			counts[c]++
			counts[b[i]]--
		}
	}
	for ; len(a) >= 8; a, b = a[8:], b[8:] {
		if binary.LittleEndian.Uint64(a) != binary.LittleEndian.Uint64(b) {
			count(a[:8], b)
		}
	}
	count(a, b)
	return counts == [256]int32{}
}
