package source

import (
	"hash/maphash"
	"iter"
	"strconv"
	"strings"

	"kubecdc/change"
)

// index is what a stream knows of each live object that it last emitted: key, uid, resourceVersion, no body. It is
// the only thing in memory that grows with the collection, so it is a hash table of its own: entries and keys lie in
// slabs without pointers, which never move and which the garbage collector does not look into. An object takes about
// 50 bytes and its key.
//
// It runs ahead of the checkpoint (it holds what was emitted, durable or not), so after any failure of the log it
// is thrown away and loaded again. Many may read it at once while nobody writes.
type index struct {
	seed    maphash.Seed
	table   []uint32 // entry number + 1; 0: empty. Linear probing
	slabs   [][]entry
	keys    [][]byte
	count   int
	made    uint32              // entries in slabs, free ones too
	free    []uint32            // entries of removed objects
	waste   int                 // bytes of keys that nothing refers to any more
	bytes   int                 // of keys in all
	odd     map[uint32]oddEntry // what does not fit into an entry
	pass    uint32              // the number of the list that is running
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

type oddEntry struct{ uid, version string }

const (
	slabEntries  = 64 // small, since most streams of a cluster hold few objects
	smallestSlab = 1 << 10
	slabBytes    = 128 << 10
)

func newIndex() *index {
	x := &index{seed: maphash.MakeSeed(), odd: map[uint32]oddEntry{}}
	x.table = x.initial[:]
	return x
}

func (x *index) len() int { return x.count }

func (x *index) entry(n uint32) *entry { return &x.slabs[n/slabEntries][n%slabEntries] }

func (x *index) key(e *entry) []byte { return x.keys[e.slab][e.offset : e.offset+uint32(e.length)] }

// find gives the place in the table of the key, or of the empty slot where it belongs.
func (x *index) find(key string) (slot uint32, found bool) {
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

func (x *index) get(key string) (known, bool) {
	slot, found := x.find(key)
	if !found {
		return known{}, false
	}
	return x.unpack(x.table[slot] - 1), true
}

// comparison is what the index knows of an object's key.
type comparison struct {
	exists bool
	same   bool // it has the object's uid
	older  bool // than the object, by its version
}

// compare does what get, newer and == do, without making texts: it is asked of every event.
func (x *index) compare(o *object) comparison {
	slot, found := x.find(o.key())
	if !found {
		return comparison{}
	}
	n := x.table[slot] - 1
	e := x.entry(n)
	version, err := strconv.ParseUint(o.version, 10, 64)
	if e.odd || err != nil {
		old := x.unpack(n)
		return comparison{exists: true, same: old.uid == o.uid, older: old.newer(o.version)}
	}
	var uid [16]byte
	return comparison{exists: true, same: packUUID(o.uid, &uid) && uid == e.uid, older: e.version < version}
}

// put notes what was emitted last, and that this pass has seen it.
func (x *index) put(key, uid, version string) {
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
	v, err := strconv.ParseUint(version, 10, 64)
	if e.odd = !packUUID(uid, &e.uid) || err != nil || version[0] == '0'; e.odd {
		x.odd[n] = oddEntry{uid: uid, version: version}
		return
	}
	e.version = v
}

// add makes an entry for a new key.
func (x *index) add(key string) (slot uint32) {
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

func (x *index) setKey(e *entry, key string) {
	last := len(x.keys) - 1
	if last < 0 || len(x.keys[last])+len(key) > cap(x.keys[last]) {
		x.keys = append(x.keys, make([]byte, 0, max(min(x.bytes, slabBytes), smallestSlab, len(key)))) // as much as all before it
		last++
	}
	e.slab, e.offset, e.length = uint32(last), uint32(len(x.keys[last])), uint16(len(key)) // a key has at most 63+1+253 bytes
	x.keys[last] = append(x.keys[last], key...)
	x.bytes += len(key)
}

func (x *index) grow() {
	old := x.table
	x.table = make([]uint32, 2*len(old))
	for _, n := range old {
		if n != 0 {
			x.insert(n)
		}
	}
}

// insert puts an entry that is in no slot into the table.
func (x *index) insert(n uint32) {
	mask := uint32(len(x.table) - 1)
	slot := uint32(maphash.Bytes(x.seed, x.key(x.entry(n-1)))) & mask
	for x.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	x.table[slot] = n
}

// rebuild copies the keys that are in use, and forgets the others.
func (x *index) rebuild() {
	old := x.keys
	x.keys, x.bytes, x.waste = nil, 0, 0
	for n := range x.made {
		if e := x.entry(n); e.live {
			x.setKey(e, string(old[e.slab][e.offset:e.offset+uint32(e.length)]))
		}
	}
}

func (x *index) remove(key string) {
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

// mark notes that the running list holds the key.
func (x *index) mark(key string) {
	if slot, found := x.find(key); found {
		x.entry(x.table[slot] - 1).seen = x.pass
	}
}

// startPass begins a list: whatever is not marked or put until unseen is called was not in it.
func (x *index) startPass() { x.pass++ }

// unseen gives the keys that the list did not hold.
func (x *index) unseen() (keys []string) {
	for n := range x.made {
		if e := x.entry(n); e.live && e.seen != x.pass {
			keys = append(keys, string(x.key(e)))
		}
	}
	return keys
}

// all gives every key.
func (x *index) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range x.made {
			if e := x.entry(n); e.live && !yield(string(x.key(e))) {
				return
			}
		}
	}
}

// newest is the object with the highest version.
func (x *index) newest() (key string, k known, ok bool) {
	top := uint32(0)
	for n := range x.made {
		if x.entry(n).live && (!ok || x.newer(n, top)) {
			top, ok = n, true
		}
	}
	if !ok {
		return "", known{}, false
	}
	return string(x.key(x.entry(top))), x.unpack(top), true
}

func (x *index) newer(n, than uint32) bool {
	a, b := x.entry(n), x.entry(than)
	if !a.odd && !b.odd {
		return a.version > b.version
	}
	return x.unpack(than).newer(x.unpack(n).version)
}

func (x *index) unpack(n uint32) known {
	e := x.entry(n)
	if e.odd {
		return known(x.odd[n])
	}
	return known{uid: formatUUID(e.uid), version: strconv.FormatUint(e.version, 10)}
}

// known is an unpacked entry.
type known struct{ uid, version string }

// newer reports whether version is newer than what was emitted. Anything is, where the log has lost that.
func (k known) newer(version string) bool {
	return k.lost() || change.CompareVersions(version, k.version) > 0
}

// lostMark before a version says that the log has lost what was emitted of the object: it is to be written again.
const lostMark = "-"

func (k known) lost() bool { return strings.HasPrefix(k.version, lostMark) }
