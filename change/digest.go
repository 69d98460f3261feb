package change

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Digest identifies a set of objects by their keys, uids and resourceVersions, whatever their order. Anyone can compute it from
// the records of a topic: take the SHA-256 of the text "KEY UID RESOURCEVERSION" of each live object. KEY is "namespace/name", or
// "name" of a cluster-scoped object. Read its first 16 bytes as two big-endian integers of 64 bits, and add up the first ones and
// the second ones, each modulo 2^64. It finds faults, not forgeries: a user who may choose names can make two sets collide.
type Digest struct {
	Objects int
	sums    [2]uint64
}

// Add adds an object, which the set does not have yet.
func (d *Digest) Add(key, uid string, version ResourceVersion) {
	var room [512]byte
	text := append(append(room[:0], key...), ' ')
	text = append(append(text, uid...), ' ')
	sum := sha256.Sum256(append(text, version...))
	d.Objects++
	for i := range d.sums {
		d.sums[i] += binary.BigEndian.Uint64(sum[8*i:])
	}
}

// Minus returns the difference between d and another digest. It is the same for the same differing objects, whatever both have in
// common.
func (d Digest) Minus(other Digest) Digest {
	d.Objects -= other.Objects
	for i := range d.sums {
		d.sums[i] -= other.sums[i]
	}
	return d
}

// String returns both sums as 16 hexadecimal digits each.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.sums[0], d.sums[1]) }
