package source

import (
	"encoding/hex"
	"strconv"

	"kubecdc/change"
)

// index is what a stream knows of each live object that it last emitted: key, uid, resourceVersion, no body. It is
// the only thing in memory that grows with the collection, so its entries are packed: about 100 bytes an object
// and its key.
//
// It runs ahead of the checkpoint (it holds what was emitted, durable or not), so after any failure of the log it
// is thrown away and loaded again.
type index struct {
	entries map[string]entry
	pass    uint32 // the number of the list that is running
}

// entry packs a uid (a UUID) and a version (an integer below 2^64); what does not fit is kept as text in odd.
type entry struct {
	uid     [16]byte
	version uint64
	odd     *oddEntry
	seen    uint32 // the last pass that listed it
}

type oddEntry struct{ uid, version string }

func newIndex() *index { return &index{entries: map[string]entry{}} }

func (x *index) len() int { return len(x.entries) }

func (x *index) get(key string) (known, bool) {
	e, ok := x.entries[key]
	if !ok {
		return known{}, false
	}
	return e.unpack(), true
}

// put notes what was emitted last, and that this pass has seen it.
func (x *index) put(key, uid, version string) {
	e := pack(uid, version)
	e.seen = x.pass
	x.entries[key] = e
}

func (x *index) remove(key string) { delete(x.entries, key) }

// mark notes that the running list holds the key.
func (x *index) mark(key string) {
	if e, ok := x.entries[key]; ok {
		e.seen = x.pass
		x.entries[key] = e
	}
}

// startPass begins a list: whatever is not marked or put until unseen is called was not in it.
func (x *index) startPass() { x.pass++ }

// unseen gives the keys that the list did not hold.
func (x *index) unseen() []string {
	var keys []string
	for key, e := range x.entries {
		if e.seen != x.pass {
			keys = append(keys, key)
		}
	}
	return keys
}

// newest is the object with the highest version.
func (x *index) newest() (key string, k known, ok bool) {
	var top entry
	for name, e := range x.entries {
		if !ok || e.newer(top) {
			key, top, ok = name, e, true
		}
	}
	return key, top.unpack(), ok
}

func (e entry) newer(than entry) bool {
	if e.odd == nil && than.odd == nil {
		return e.version > than.version
	}
	return than.unpack().newer(e.unpack().version)
}

// known is an unpacked entry.
type known struct{ uid, version string }

// newer reports whether version is newer than what was emitted.
func (k known) newer(version string) bool { return change.CompareVersions(version, k.version) > 0 }

func pack(uid, version string) entry {
	e := entry{}
	n, err := strconv.ParseUint(version, 10, 64)
	if packUUID(uid, &e.uid) && err == nil && version[0] != '0' {
		e.version = n
		return e
	}
	return entry{odd: &oddEntry{uid: uid, version: version}}
}

func (e entry) unpack() known {
	if e.odd != nil {
		return known(*e.odd)
	}
	return known{uid: formatUUID(e.uid), version: strconv.FormatUint(e.version, 10)}
}

// packUUID packs the canonical lower-case form only, so that formatUUID gives the same text back.
func packUUID(s string, out *[16]byte) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	var digits [32]byte
	n := 0
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		if s[i] >= 'A' && s[i] <= 'F' {
			return false
		}
		digits[n] = s[i]
		n++
	}
	_, err := hex.Decode(out[:], digits[:])
	return err == nil
}

func formatUUID(u [16]byte) string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}
