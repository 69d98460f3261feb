package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"hash/maphash"
	"math/rand/v2"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
	"kubecdc/internal/delta"
)

// object is what the writer knows of an object: its row, and its last body in the log.
type object struct {
	id, stream int64
	gone       bool
	newer      bool // there is a newer update, which is not written
	stored
	unpacked   bool   // while a batch is written:
	full, last []byte // the full body, and the last one
	counted    int    // the size that the cache counts
}

// objectName has the columns that are unique in log_objects.
type objectName struct {
	resource             int64
	namespace, name, uid string
}

func nameOf(c *change.Change, row stream) objectName {
	return objectName{row.resource, c.Namespace, c.Name, c.UID}
}

// objectKey is a hash of a name, of 128 bits with keys of this process, so that the cache needs no names.
type objectKey [2]uint64

var hashKeys = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (n objectName) key() objectKey {
	return objectKey{maphash.Comparable(hashKeys[0], n), maphash.Comparable(hashKeys[1], n)}
}

// objectCache has the objects that changed last, up to maxBytes. A deleted object is removed, since its row may be removed.
type objectCache struct {
	*simplelru.LRU[objectKey, *object]
	bytes, maxBytes int
}

func newObjectCache(maxBytes int) *objectCache {
	c := &objectCache{maxBytes: maxBytes}
	c.LRU, _ = simplelru.NewLRU(1<<20, func(_ objectKey, o *object) { c.bytes, o.counted = c.bytes-o.counted, 0 })
	return c
}

// objectBytes is about the size of an object in the cache, without its body.
const objectBytes = 300

func (c *objectCache) put(key objectKey, o *object) {
	if o.gone {
		c.Remove(key)
		return
	}
	c.bytes -= o.counted
	o.counted = objectBytes + len(o.packed) + len(o.delta)
	c.bytes += o.counted
	for c.Add(key, o); c.bytes > c.maxBytes && c.Len() > 1; {
		c.RemoveOldest()
	}
}

// find returns an object, and reads it if necessary. It returns nil if the log does not have the object.
func (l *slotLog) find(t *tx, name objectName, key objectKey) (*object, error) {
	if o, known := l.objects.Get(key); known {
		return o, nil
	}
	o := &object{}
	var id, gone, back sql.NullInt64
	var body, full []byte
	err := t.find(findObject, []any{name.resource, name.namespace, name.name, name.uid}, &o.id, &o.stream, &gone, &o.newer, &id,
		&back, &body, &full)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	o.gone, o.stored = gone.Valid, storedOf(id.Int64, back, body, full)
	return o, err
}

// object returns a change's object. For the first change, it adds the object's row.
func (l *slotLog) object(t *tx, id int64, row stream, name objectName, key objectKey) (*object, error) {
	if o, known := l.objects.Get(key); known {
		return o, nil
	}
	added, err := t.run(addObject, id, name.resource, name.namespace, name.name, name.uid, row.id)
	if err != nil || added == 0 {
		return l.find(t, name, key)
	}
	l.counts[row.id]++
	return &object{id: id, stream: row.id}, nil
}

// move stores in an object's row which stream the object is in, and whether it is deleted. No update is newer than the change
// that moves it.
func (l *slotLog) move(t *tx, o *object, id int64, row stream, gone bool) error {
	if gone == o.gone && o.stream == row.id && !o.newer {
		return nil
	}
	if !o.gone {
		l.counts[o.stream]--
	}
	if !gone {
		l.counts[row.id]++
	}
	o.gone, o.stream, o.newer = gone, row.id, false
	var deleted any
	if gone {
		deleted = id
	}
	_, err := t.run(moveObject, row.id, deleted, o.id)
	return err
}

// setVersion sets the version of an update that is not written, if the object lives.
func (l *slotLog) setVersion(t *tx, v *change.ObjectVersion) error {
	row, err := l.stream(t, v.Stream)
	if err != nil {
		return err
	}
	name := objectName{row.resource, v.Namespace, v.Name, v.UID}
	key := name.key()
	o, err := l.find(t, name, key)
	if err != nil || o == nil || o.gone {
		return err
	}
	o.newer = true
	l.objects.put(key, o)
	_, err = t.run(setVersion, storedVersion(v.ResourceVersion), o.id)
	return err
}

// unpack unpacks an object's body until the batch is written.
func (l *slotLog) unpack(o *object, c codec, memory func(n int) []byte) (err error) {
	if !o.unpacked {
		o.full, o.last, err = c.bodies(o.stored, memory)
		l.unpacked, o.unpacked = append(l.unpacked, o), true
	}
	return err
}

// release drops what was unpacked.
func (l *slotLog) release() {
	for _, o := range l.unpacked {
		o.full, o.last, o.unpacked = nil, nil, false
	}
	l.unpacked = l.unpacked[:0]
}

// A full body is written when the delta has become long. It is also written at random. On average that is when the deltas since
// the last full body together take deltasForOne times its size. It then no longer repeats what is the same in all of them.
const deltasForOne = 8

// pack returns the columns back and body of a change.
func (l *slotLog) pack(o *object, id int64, c *change.Change, follows bool, coder codec) (back, body any) {
	o.last = c.After
	if c.After == nil {
		o.stored = stored{}
		return nil, nil
	}
	if follows {
		if d := delta.Make(o.full, c.After, 64+len(c.After)/8); d != nil && rand.IntN(deltasForOne*len(o.packed)) >= len(d) {
			o.delta = d
			return id - o.base, d
		}
	}
	o.stored, o.full = stored{id, coder.pack(c.After, &l.scratch), nil}, c.After
	return int64(0), o.packed
}

// follows reports whether a change's state before is the object's last body in the log.
func (l *slotLog) follows(o *object, c *change.Change, coder codec) (bool, error) {
	err := l.unpack(o, coder, ownMemory)
	return err == nil && c.Before != nil && o.base != 0 && bytes.Equal(o.last, c.Before), err
}
