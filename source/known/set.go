// Package known holds what a reflector last emitted of each live object (key, uid, resourceVersion, never a body), and compares
// objects of the server with that. The set is ahead of the checkpoint: it holds what was emitted, durable or not. After a
// failure of the sink it is dropped and loaded again.
package known

import (
	"hash/maphash"
	"iter"

	"kubecdc/change"
)

// Set holds the key, uid and resourceVersion of each live object of a collection, as they were last emitted. Nothing else in
// memory grows with the collection, so it is a hash table of its own. Entries and keys lie in slabs without pointers, which never
// move and which the garbage collector does not scan. An object takes about 50 bytes and its key. With 100,000 objects a Go map
// takes a quarter more, with a million three quarters (BenchmarkSet).
//
// Many goroutines may read a Set at once while none writes.
type Set struct {
	seed    maphash.Seed
	table   []uint32 // slots, by linear probing: tag and number of an entry, or 0 if the slot is empty
	slabs   [][]entry
	keys    [][]byte
	count   int
	made    uint32            // entries in slabs, with the free ones
	free    []uint32          // entries of removed objects
	waste   int               // bytes of keys of removed objects
	bytes   int               // bytes of all keys
	odd     map[uint32]Object // objects that do not fit into an entry
	pass    uint32            // the number of the running list
	initial [8]uint32
}

// entry packs a uid (a UUID) and a version (an integer below 2^64). An object that does not fit is in Set.odd.
type entry struct {
	uid     [16]byte
	version uint64
	slab    uint32 // the slab of the key
	offset  uint32
	length  uint16
	odd     bool
	live    bool
	seen    uint32 // the last pass in which a list had it
}

const (
	slabEntries  = 64 // small, since most streams of a cluster hold few objects
	smallestSlab = 1 << 10
	slabBytes    = 128 << 10
)

func New() *Set {
	x := &Set{seed: maphash.MakeSeed(), odd: map[uint32]Object{}}
	x.table = x.initial[:]
	return x
}

func (s *Set) Len() int { return s.count }

func (s *Set) entry(n uint32) *entry { return &s.slabs[n/slabEntries][n%slabEntries] }

func (s *Set) key(e *entry) []byte { return s.keys[e.slab][e.offset : e.offset+uint32(e.length)] }

// mask has the bits of a slot that hold the entry's number + 1: a table of 2^k slots has fewer than 2^k entries. The other bits
// hold the tag, bits of the key's hash, so that the entries of other keys are seldom read.
func (s *Set) mask() uint32 { return uint32(len(s.table) - 1) }

func (s *Set) entryAt(slot uint32) uint32 { return s.table[slot]&s.mask() - 1 }

// find returns the slot of the key, or the empty slot where the key belongs.
func (s *Set) find(key string) (slot uint32, found bool) {
	hash, mask := maphash.String(s.seed, key), s.mask()
	tag := uint32(hash>>32) &^ mask
	for slot = uint32(hash) & mask; ; slot = (slot + 1) & mask {
		v := s.table[slot]
		if v == 0 {
			return slot, false
		}
		if v&^mask == tag && string(s.key(s.entry(v&mask-1))) == key {
			return slot, true
		}
	}
}

func (s *Set) Get(key string) (Object, bool) {
	slot, found := s.find(key)
	if !found {
		return Object{}, false
	}
	return s.unpack(s.entryAt(slot)), true
}

// Put records what was last emitted of an object, and that the running list has it.
func (s *Set) Put(key, uid string, version change.ResourceVersion) {
	slot, found := s.find(key)
	if !found {
		slot = s.add(key)
	}
	n := s.entryAt(slot)
	e := s.entry(n)
	e.seen = s.pass
	if e.odd {
		delete(s.odd, n)
	}
	v, err := version.Revision()
	if e.odd = !packUUID(uid, &e.uid) || err != nil || version[0] == '0'; e.odd {
		s.odd[n] = Object{UID: uid, Version: version}
		return
	}
	e.version = v
}

func (s *Set) add(key string) (slot uint32) {
	if s.waste > slabBytes && s.waste > s.bytes/2 {
		s.rebuild()
	}
	if (s.count+1)*4 > len(s.table)*3 {
		s.grow()
	}
	n := s.made
	if last := len(s.free) - 1; last >= 0 {
		n, s.free = s.free[last], s.free[:last]
	} else {
		if n%slabEntries == 0 {
			s.slabs = append(s.slabs, make([]entry, slabEntries))
		}
		s.made++
	}
	*s.entry(n) = entry{live: true}
	s.setKey(s.entry(n), key)
	s.count++
	return s.insert(n)
}

func (s *Set) setKey(e *entry, key string) {
	last := len(s.keys) - 1
	if last < 0 || len(s.keys[last])+len(key) > cap(s.keys[last]) {
		s.keys = append(s.keys, make([]byte, 0, max(min(s.bytes/2, slabBytes), smallestSlab, len(key)))) // half of all before it
		last++
	}
	e.slab, e.offset, e.length = uint32(last), uint32(len(s.keys[last])), uint16(len(key)) // a name has at most 1024 bytes
	s.keys[last] = append(s.keys[last], key...)
	s.bytes += len(key)
}

func (s *Set) grow() {
	s.table = make([]uint32, 2*len(s.table))
	for n := range s.made {
		if s.entry(n).live {
			s.insert(n)
		}
	}
}

// insert puts an entry, which is in no slot yet, into the table.
func (s *Set) insert(n uint32) (slot uint32) {
	hash, mask := maphash.Bytes(s.seed, s.key(s.entry(n))), s.mask()
	slot = uint32(hash) & mask
	for s.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	s.table[slot] = uint32(hash>>32)&^mask | (n + 1)
	return slot
}

func (s *Set) rebuild() {
	old := s.keys
	s.keys, s.bytes, s.waste = nil, 0, 0
	for n := range s.made {
		if e := s.entry(n); e.live {
			s.setKey(e, string(old[e.slab][e.offset:e.offset+uint32(e.length)]))
		}
	}
}

// Remove drops an object whose deletion was emitted.
func (s *Set) Remove(key string) {
	slot, found := s.find(key)
	if !found {
		return
	}
	n := s.entryAt(slot)
	e := s.entry(n)
	s.waste += int(e.length)
	e.live = false
	delete(s.odd, n)
	s.free = append(s.free, n)
	s.count--
	s.table[slot] = 0
	mask := s.mask()
	for slot = (slot + 1) & mask; s.table[slot] != 0; slot = (slot + 1) & mask { // close the gap in the probe sequence
		n := s.entryAt(slot)
		s.table[slot] = 0
		s.insert(n)
	}
}

// Mark records that the running list has the key.
func (s *Set) Mark(key string) {
	if slot, found := s.find(key); found {
		s.entry(s.entryAt(slot)).seen = s.pass
	}
}

// Unmark records that the running list does not have the key any more.
func (s *Set) Unmark(key string) {
	if slot, found := s.find(key); found {
		s.entry(s.entryAt(slot)).seen = s.pass - 1
	}
}

// StartPass begins a list. Unseen then returns the keys that were neither marked nor put since.
func (s *Set) StartPass() { s.pass++ }

// Pass returns the number of the running list.
func (s *Set) Pass() uint32 { return s.pass }

// Unseen returns the keys that the running list does not have.
func (s *Set) Unseen() (keys []string) {
	for n := range s.made {
		if e := s.entry(n); e.live && e.seen != s.pass {
			keys = append(keys, string(s.key(e)))
		}
	}
	return keys
}

// All returns the keys of the live objects, in no order.
func (s *Set) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range s.made {
			if e := s.entry(n); e.live && !yield(string(s.key(e))) {
				return
			}
		}
	}
}

// Newest returns the object with the newest version. ok is false if there is none.
func (s *Set) Newest() (key string, k Object, ok bool) {
	top := uint32(0)
	for n := range s.made {
		if s.entry(n).live && (!ok || s.newer(n, top)) {
			top, ok = n, true
		}
	}
	if !ok {
		return "", Object{}, false
	}
	return string(s.key(s.entry(top))), s.unpack(top), true
}

func (s *Set) newer(n, than uint32) bool {
	a, b := s.entry(n), s.entry(than)
	if !a.odd && !b.odd {
		return a.version > b.version
	}
	o, older := s.unpack(n), s.unpack(than)
	return o.Version.Compare(older.Version) > 0
}

func (s *Set) unpack(n uint32) Object {
	e := s.entry(n)
	if e.odd {
		return s.odd[n]
	}
	return Object{UID: formatUUID(e.uid), Version: change.VersionOf(e.version)}
}
