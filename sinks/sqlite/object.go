package sqlite

import (
	"database/sql"
	"hash/crc32"
	"hash/maphash"
	"math"

	"kubecdc/change"
	"kubecdc/internal/delta"
)

// object is what the writer knows of an object: its row, and the last body that the log has of it.
type object struct {
	id     int64
	stream int64
	gone   bool
	// Of the last body. It is compared by length and checksum, so that no body is held.
	known  bool
	depth  uint8
	length uint32
	sum    uint32
}

// objectName is what log_objects has once.
type objectName struct {
	resource             int64
	namespace, name, uid string
}

// objectKey is the hash of a name, of 128 bits by keys of this process, so that the cache holds no names.
type objectKey [2]uint64

var hashKeys = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (n objectName) key() objectKey {
	return objectKey{maphash.Comparable(hashKeys[0], n), maphash.Comparable(hashKeys[1], n)}
}

// cached is how many objects each half of a cache holds, at 64 bytes each. Those that change again and again stay in it.
const cached = 40_000

// objectCache holds the objects that changed last: those that were used since the younger half was begun move to the next.
type objectCache struct{ young, old map[objectKey]object }

func (c *objectCache) get(key objectKey) (o object, found bool) {
	if o, found = c.young[key]; !found {
		o, found = c.old[key]
	}
	return o, found
}

// put notes an object; one that is gone is forgotten, since its row may be removed.
func (c *objectCache) put(key objectKey, o object) {
	if o.gone {
		delete(c.young, key)
		delete(c.old, key)
		return
	}
	if c.young == nil || len(c.young) >= cached {
		c.old, c.young = c.young, map[objectKey]object{}
	}
	c.young[key] = o
}

// object returns what is known of a change's object, whose row it makes for the first change.
func (l *slotLog) object(t *tx, id int64, of stream, name objectName, key objectKey) (object, error) {
	if o, known := l.objects.get(key); known {
		return o, nil
	}
	o := object{id: id, stream: of.id}
	added, err := t.run(addObject, o.id, name.resource, name.namespace, name.name, name.uid, of.id)
	if err == nil && added == 0 {
		err = o.read(t, name, l.codecs[of.resource])
	}
	return o, err
}

// move notes in an object's row which stream it is in, and whether it is gone.
func (o *object) move(t *tx, id int64, of stream, gone bool) error {
	if gone == o.gone && o.stream == of.id {
		return nil
	}
	o.gone, o.stream = gone, of.id
	var deleted any
	if gone {
		deleted = id
	}
	_, err := t.run(moveObject, of.id, deleted, o.id)
	return err
}

// read reads an object's row and its last body.
func (o *object) read(t *tx, n objectName, whole codec) error {
	var gone sql.NullInt64
	if err := t.find(findObject, []any{n.resource, n.namespace, n.name, n.uid}, &o.id, &o.stream, &gone); err != nil {
		return err
	}
	o.gone = gone.Valid
	steps, err := chain(t.ctx, t.tx, o.id, math.MaxInt64)
	if err != nil || len(steps) == 0 {
		return err
	}
	body, err := whole.body(steps)
	if err == nil {
		o.note(body, uint8(len(steps)-1))
	}
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// has reports whether a state is the last body that the log has of the object.
func (o *object) has(state []byte) bool {
	return o.known && o.length == uint32(len(state)) && o.sum == crc32.Checksum(state, castagnoli)
}

// note remembers the last body; nil: there is none.
func (o *object) note(body []byte, depth uint8) {
	o.known, o.depth = body != nil, depth
	if body != nil {
		o.length, o.sum = uint32(len(body)), crc32.Checksum(body, castagnoli)
	}
}

// maxDepth is how many steps a body is at most from a whole one. More take less room, and longer to read.
const maxDepth = 31

// pack makes the columns depth and body of a change.
func (o *object) pack(c *change.Change, follows bool, whole codec) (depth, body any) {
	if c.After == nil {
		o.note(nil, 0)
		return nil, nil
	}
	if follows && o.depth < maxDepth {
		if d := delta.Make(c.Before, c.After, 64+len(c.After)/8); d != nil {
			o.note(c.After, o.depth+1)
			return int64(o.depth), d
		}
	}
	o.note(c.After, 0)
	return int64(0), whole.pack(c.After)
}
