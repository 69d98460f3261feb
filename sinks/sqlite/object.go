package sqlite

import (
	"database/sql"
	"errors"
	"hash/crc32"

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

// objectKey is what log_objects has once.
type objectKey struct {
	resource             int64
	namespace, name, uid string
}

// cached is how many objects each half of a cache holds. Those that change again and again stay in it.
const cached = 10_000

// objectCache holds the objects that changed last: all that were used since its younger half was full move to the next.
type objectCache struct{ young, old map[objectKey]*object }

func newObjectCache() *objectCache {
	return &objectCache{young: map[objectKey]*object{}, old: map[objectKey]*object{}}
}

func (c *objectCache) get(key objectKey) *object {
	if o := c.young[key]; o != nil {
		return o
	}
	o := c.old[key]
	if o != nil {
		c.put(key, o)
	}
	return o
}

func (c *objectCache) put(key objectKey, o *object) {
	if len(c.young) >= cached {
		c.old, c.young = c.young, map[objectKey]*object{}
	}
	c.young[key] = o
}

// object returns the row of a change's object, which it makes for the first change, and moves it to what the change makes of it.
func (l *slotLog) object(t *tx, change_ int64, of stream, c *change.Change) (*object, error) {
	key := objectKey{of.resource, c.Namespace, c.Name, c.UID}
	o := l.objects.get(key)
	if o == nil {
		o = &object{id: change_, stream: of.id}
		added, err := t.run(addObject, o.id, key.resource, key.namespace, key.name, key.uid, of.id)
		if err == nil && added == 0 {
			err = l.read(t, key, o)
		}
		if err != nil {
			return nil, err
		}
		l.objects.put(key, o)
	}
	gone := c.Op == change.Delete
	if gone == o.gone && o.stream == of.id {
		return o, nil
	}
	o.gone, o.stream = gone, of.id
	var deleted any
	if gone {
		deleted = change_
	}
	_, err := t.run(moveObject, of.id, deleted, o.id)
	return o, err
}

// read reads an object's row and its last body.
func (l *slotLog) read(t *tx, key objectKey, o *object) error {
	var gone sql.NullInt64
	if err := t.find(findObject, []any{key.resource, key.namespace, key.name, key.uid}, &o.id, &o.stream, &gone); err != nil {
		return err
	}
	o.gone = gone.Valid
	var last int64
	var depth sql.NullInt64
	err := t.find(lastBody, []any{o.id}, &last, &depth)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil || !depth.Valid {
		return err
	}
	steps, err := chain(t.ctx, t.tx, o.id, last)
	if err != nil {
		return err
	}
	body, err := unpack(steps)
	if err == nil {
		o.note(body, uint8(depth.Int64))
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
const maxDepth = 15

// pack makes the columns depth and body of a change.
func (o *object) pack(c *change.Change, follows bool) (depth, body any) {
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
	return int64(0), packWhole(c.After)
}
