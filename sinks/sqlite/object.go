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

// object is what the writer knows of an object: its row, and the last body that the log has of it.
type object struct {
	id, stream int64
	gone       bool
	newer      bool // an update of it is not written
	stored
	unpacked    bool   // while a batch is written:
	whole, last []byte // the whole body, and the last one
	counted     int    // by the cache
}

// objectName is what log_objects has once.
type objectName struct {
	resource             int64
	namespace, name, uid string
}

func nameOf(c *change.Change, of stream) objectName {
	return objectName{of.resource, c.Namespace, c.Name, c.UID}
}

// objectKey is the hash of a name, of 128 bits by keys of this process, so that the cache holds no names.
type objectKey [2]uint64

var hashKeys = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (n objectName) key() objectKey {
	return objectKey{maphash.Comparable(hashKeys[0], n), maphash.Comparable(hashKeys[1], n)}
}

// objectCache holds the objects that changed last, up to maxBytes. One that is gone is forgotten, since its row may be removed.
type objectCache struct {
	*simplelru.LRU[objectKey, *object]
	bytes, maxBytes int
}

func newObjectCache(maxBytes int) *objectCache {
	c := &objectCache{maxBytes: maxBytes}
	c.LRU, _ = simplelru.NewLRU(1<<20, func(_ objectKey, o *object) { c.bytes, o.counted = c.bytes-o.counted, 0 })
	return c
}

// objectBytes is about what an object takes there besides its body.
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

// find returns what is known of an object, which is read if that is needed; nil: the log does not have it.
func (l *slotLog) find(t *tx, name objectName, key objectKey) (*object, error) {
	if o, known := l.objects.Get(key); known {
		return o, nil
	}
	o := &object{}
	var id, gone, back sql.NullInt64
	var body, whole []byte
	err := t.find(findObject, []any{name.resource, name.namespace, name.name, name.uid}, &o.id, &o.stream, &gone, &o.newer, &id, &back, &body, &whole)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	o.gone, o.stored = gone.Valid, storedOf(id.Int64, back, body, whole)
	return o, err
}

// object returns what is known of a change's object, whose row it makes for the first change.
func (l *slotLog) object(t *tx, id int64, of stream, name objectName, key objectKey) (*object, error) {
	if o, known := l.objects.Get(key); known {
		return o, nil
	}
	added, err := t.run(addObject, id, name.resource, name.namespace, name.name, name.uid, of.id)
	if err != nil || added == 0 {
		return l.find(t, name, key)
	}
	l.counts[of.id]++
	return &object{id: id, stream: of.id}, nil
}

// move notes in an object's row which stream it is in, and whether it is gone. No update is newer than the change that moves it.
func (l *slotLog) move(t *tx, o *object, id int64, of stream, gone bool) error {
	if gone == o.gone && o.stream == of.id && !o.newer {
		return nil
	}
	if !o.gone {
		l.counts[o.stream]--
	}
	if !gone {
		l.counts[of.id]++
	}
	o.gone, o.stream, o.newer = gone, of.id, false
	var deleted any
	if gone {
		deleted = id
	}
	_, err := t.run(moveObject, of.id, deleted, o.id)
	return err
}

// note sets the version of an update that is not written, if the object lives.
func (l *slotLog) note(t *tx, v *change.ObjectVersion) error {
	of, err := l.stream(t, v.Stream)
	if err != nil {
		return err
	}
	name := objectName{of.resource, v.Namespace, v.Name, v.UID}
	key := name.key()
	o, err := l.find(t, name, key)
	if err != nil || o == nil || o.gone {
		return err
	}
	o.newer = true
	l.objects.put(key, o)
	_, err = t.run(noteVersion, storedVersion(v.ResourceVersion), o.id)
	return err
}

// unpack unpacks an object's body until the batch is written.
func (l *slotLog) unpack(o *object, c codec, memory func(n int) []byte) (err error) {
	if !o.unpacked {
		o.whole, o.last, err = c.bodies(o.stored, memory)
		l.unpacked, o.unpacked = append(l.unpacked, o), true
	}
	return err
}

// release drops what was unpacked.
func (l *slotLog) release() {
	for _, o := range l.unpacked {
		o.whole, o.last, o.unpacked = nil, nil, false
	}
	l.unpacked = l.unpacked[:0]
}

// A whole body is written anew where what differs has become long, and, on average, once the deltas since then take so many times what it
// takes: what is the same in all of them is then no longer repeated.
const deltasForOne = 8

// pack makes the columns back and body of a change.
func (l *slotLog) pack(o *object, id int64, c *change.Change, follows bool, with codec) (back, body any) {
	o.last = c.After
	if c.After == nil {
		o.stored = stored{}
		return nil, nil
	}
	if follows {
		if d := delta.Make(o.whole, c.After, 64+len(c.After)/8); d != nil && rand.IntN(deltasForOne*len(o.packed)) >= len(d) {
			o.delta = d
			return id - o.base, d
		}
	}
	o.stored, o.whole = stored{id, with.pack(c.After, &l.scratch), nil}, c.After
	return int64(0), o.packed
}

// follows reports whether a change's state before is the last body that the log has of its object.
func (l *slotLog) follows(o *object, c *change.Change, with codec) (bool, error) {
	err := l.unpack(o, with, ownMemory)
	return err == nil && c.Before != nil && o.base != 0 && bytes.Equal(o.last, c.Before), err
}
