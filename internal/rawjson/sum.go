package rawjson

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// Sum returns a hash of a value that was checked before. The order of an object's members makes no difference, since a log in Avro
// has them in the order of its schema.
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

// Same reports whether two values are equal except for the order of members. Few unequal values reach Sum, since nearly all have other
// bytes.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return len(a) == len(b) && len(a) > 0 && nests[a[0]] > 0 && total(a) == total(b) && sameBytes(a, b) &&
		Sum(sameSeed, a) == Sum(sameSeed, b)
}

// total returns the sum of the bytes. It adds eight bytes at a time, in four lanes of 16 bits.
func total(b []byte) (n uint64) {
	const lanes, most = 0x00ff00ff00ff00ff, 128 // so many words fit
	for len(b) >= 8 {
		sum := uint64(0)
		for range min(len(b)/8, most) {
			w := binary.LittleEndian.Uint64(b)
			sum += w&lanes + w>>8&lanes
			b = b[8:]
		}
		n += sum&0xffff + sum>>16&0xffff + sum>>32&0xffff + sum>>48
	}
	for _, c := range b {
		n += uint64(c)
	}
	return n
}

// sameBytes reports whether two texts of one length have the same bytes in any order. total alone does not suffice: two timestamps
// often have the same total.
func sameBytes(a, b []byte) bool {
	var counts [256]int32
	for i, c := range a {
		if c != b[i] {
			counts[c]++
			counts[b[i]]--
		}
	}
	return counts == [256]int32{}
}
