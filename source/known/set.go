// Package known holds what a reflector last emitted of each live object (key, uid, resourceVersion, never a body), and
// tells how an object that the server shows differs from that. The set runs ahead of the checkpoint: it holds what was
// emitted, durable or not. After any failure of the sink it is thrown away and loaded again.
package known

import (
	"cmp"
	"hash/maphash"
	"iter"

	"kubecdc/change"
)

// Set holds the key, uid and resourceVersion of each live object of a collection, as they were last emitted. It is the
// only thing in memory that grows with the collection, so it is a hash table of its own: entries and keys lie in slabs
// without pointers, which never move and which the garbage collector does not scan. An object takes about 50 bytes and
// its key.
//
// Many goroutines may read a Set at once while none writes.
type Set struct {
	seed    maphash.Seed
	table   []uint32 // entry number + 1; 0: empty. Linear probing
	slabs   [][]entry
	keys    [][]byte
	count   int
	made    uint32            // entries in slabs, free ones too
	free    []uint32          // entries of removed objects
	waste   int               // bytes of keys that nothing refers to any more
	bytes   int               // of keys in all
	odd     map[uint32]Object // what does not fit into an entry
	pass    uint32            // the number of the list that is running
	initial [8]uint32
}

// entry packs a uid (a UUID) and a version (an integer below 2^64); what does not fit is kept as text in odd.
type entry struct {
	uid     [16]byte
	version uint64
	slab    uint32 // of the key
	offset  uint32
	length  uint16
	odd     bool
	live    bool
	seen    uint32 // the last pass that listed it
}

const (
	slabEntries  = 64 // small, since most streams of a cluster hold few objects
	smallestSlab = 1 << 10
	slabBytes    = 128 << 10
)

// New returns an empty set.
func New() *Set {
	x := &Set{seed: maphash.MakeSeed(), odd: map[uint32]Object{}}
	x.table = x.initial[:]
	return x
}

// Len returns how many objects the set holds.
func (x *Set) Len() int { return x.count }

func (x *Set) entry(n uint32) *entry { return &x.slabs[n/slabEntries][n%slabEntries] }

func (x *Set) key(e *entry) []byte { return x.keys[e.slab][e.offset : e.offset+uint32(e.length)] }

// find returns the slot of the key, or the empty slot where the key belongs.
func (x *Set) find(key string) (slot uint32, found bool) {
	mask := uint32(len(x.table) - 1)
	for slot = uint32(maphash.String(x.seed, key)) & mask; ; slot = (slot + 1) & mask {
		n := x.table[slot]
		if n == 0 {
			return slot, false
		}
		if string(x.key(x.entry(n-1))) == key {
			return slot, true
		}
	}
}

// Get returns what was last emitted of an object.
func (x *Set) Get(key string) (Object, bool) {
	slot, found := x.find(key)
	if !found {
		return Object{}, false
	}
	return x.unpack(x.table[slot] - 1), true
}

// Compare returns how an object that the server shows differs from the one in the set. It does what Diff does without
// making strings, since every event asks for it.
func (x *Set) Compare(key, uid string, version change.ResourceVersion) Difference {
	slot, found := x.find(key)
	if !found {
		return Absent
	}
	n := x.table[slot] - 1
	e := x.entry(n)
	v, err := version.Revision()
	if e.odd || err != nil {
		return Diff(x.unpack(n), true, uid, version)
	}
	var packed [16]byte
	return differenceOf(packUUID(uid, &packed) && packed == e.uid, cmp.Compare(v, e.version))
}

// Put records what was emitted last of an object, and that the running list has it.
func (x *Set) Put(key, uid string, version change.ResourceVersion) {
	slot, found := x.find(key)
	if !found {
		slot = x.add(key)
	}
	n := x.table[slot] - 1
	e := x.entry(n)
	e.seen = x.pass
	if e.odd {
		delete(x.odd, n)
	}
	v, err := version.Revision()
	if e.odd = !packUUID(uid, &e.uid) || err != nil || version[0] == '0'; e.odd {
		x.odd[n] = Object{UID: uid, Version: version}
		return
	}
	e.version = v
}

// add makes an entry for a new key.
func (x *Set) add(key string) (slot uint32) {
	if x.waste > slabBytes && x.waste > x.bytes/2 {
		x.rebuild()
	}
	if (x.count+1)*4 > len(x.table)*3 {
		x.grow()
	}
	n := x.made
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	} else {
		if n%slabEntries == 0 {
			x.slabs = append(x.slabs, make([]entry, slabEntries))
		}
		x.made++
	}
	*x.entry(n) = entry{live: true}
	x.setKey(x.entry(n), key)
	x.count++
	slot, _ = x.find(key)
	x.table[slot] = n + 1
	return slot
}

func (x *Set) setKey(e *entry, key string) {
	last := len(x.keys) - 1
	if last < 0 || len(x.keys[last])+len(key) > cap(x.keys[last]) {
		x.keys = append(x.keys, make([]byte, 0, max(min(x.bytes, slabBytes), smallestSlab, len(key)))) // as much as all before it
		last++
	}
	e.slab, e.offset, e.length = uint32(last), uint32(len(x.keys[last])), uint16(len(key)) // a key has at most 63+1+253 bytes
	x.keys[last] = append(x.keys[last], key...)
	x.bytes += len(key)
}

func (x *Set) grow() {
	old := x.table
	x.table = make([]uint32, 2*len(old))
	for _, n := range old {
		if n != 0 {
			x.insert(n)
		}
	}
}

// insert puts an entry into the table that is in no slot yet.
func (x *Set) insert(n uint32) {
	mask := uint32(len(x.table) - 1)
	slot := uint32(maphash.Bytes(x.seed, x.key(x.entry(n-1)))) & mask
	for x.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	x.table[slot] = n
}

// rebuild copies the keys in use and drops the others.
func (x *Set) rebuild() {
	old := x.keys
	x.keys, x.bytes, x.waste = nil, 0, 0
	for n := range x.made {
		if e := x.entry(n); e.live {
			x.setKey(e, string(old[e.slab][e.offset:e.offset+uint32(e.length)]))
		}
	}
}

// Remove drops an object whose deletion was emitted.
func (x *Set) Remove(key string) {
	slot, found := x.find(key)
	if !found {
		return
	}
	n := x.table[slot] - 1
	e := x.entry(n)
	x.waste += int(e.length)
	e.live = false
	delete(x.odd, n)
	x.free = append(x.free, n)
	x.count--
	x.table[slot] = 0
	mask := uint32(len(x.table) - 1)
	for slot = (slot + 1) & mask; x.table[slot] != 0; slot = (slot + 1) & mask { // those that were pushed on move back
		n := x.table[slot]
		x.table[slot] = 0
		x.insert(n)
	}
}

// Mark records that the running list has the key.
func (x *Set) Mark(key string) {
	if slot, found := x.find(key); found {
		x.entry(x.table[slot] - 1).seen = x.pass
	}
}

// StartPass begins a list. Unseen then returns the keys that were neither marked nor put since.
func (x *Set) StartPass() { x.pass++ }

// Unseen returns the keys that the running list does not have.
func (x *Set) Unseen() (keys []string) {
	for n := range x.made {
		if e := x.entry(n); e.live && e.seen != x.pass {
			keys = append(keys, string(x.key(e)))
		}
	}
	return keys
}

// All iterates over every key.
func (x *Set) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range x.made {
			if e := x.entry(n); e.live && !yield(string(x.key(e))) {
				return
			}
		}
	}
}

// Newest returns the object with the highest version.
func (x *Set) Newest() (key string, k Object, ok bool) {
	top := uint32(0)
	for n := range x.made {
		if x.entry(n).live && (!ok || x.newer(n, top)) {
			top, ok = n, true
		}
	}
	if !ok {
		return "", Object{}, false
	}
	return string(x.key(x.entry(top))), x.unpack(top), true
}

func (x *Set) newer(n, than uint32) bool {
	a, b := x.entry(n), x.entry(than)
	if !a.odd && !b.odd {
		return a.version > b.version
	}
	older, version := x.unpack(than), x.unpack(n).Version
	return older.lost() || version.Compare(older.Version) > 0
}

func (x *Set) unpack(n uint32) Object {
	e := x.entry(n)
	if e.odd {
		return x.odd[n]
	}
	return Object{UID: formatUUID(e.uid), Version: change.VersionOf(e.version)}
}
