package sqlite

import (
	"database/sql"
	"errors"
	"time"

	"kubecdc/change"
)

// Columns of log_changes.op.
const (
	opInferred   = 1 << 8
	opFromBefore = 1 << 9 // the state before is the state after the object's previous change
	opStub       = 1 << 10
	nanosShift   = 16 // the bits above it are the nanoseconds that the time's column lacks
)

// add writes one change. If its body is a stub, there is a dead letter.
func (l *slotLog) add(t *tx, id int64, c *change.Change, deadLetter string) error {
	row, err := l.stream(t, c.Stream.ID())
	if err != nil {
		return err
	}
	coder, err := l.codec(t, row.resource, c)
	if err != nil {
		return err
	}
	name := nameOf(c, row)
	key := name.key()
	o, err := l.object(t, id, row, name, key)
	if err == nil {
		err = l.move(t, o, id, row, c.Op == change.Delete)
	}
	if err != nil {
		return err
	}
	follows, err := l.follows(o, c, coder)
	if err != nil {
		return err
	}
	op := int64(c.Op)
	if c.Inferred {
		op |= opInferred
	}
	if l.sink.Spool {
		op |= int64(c.Time.Nanosecond()%int(time.Millisecond)) << nanosShift
	}
	if deadLetter != "" {
		op |= opStub
		if err := t.do(`insert into log_stubs values (?, ?)`, id, deadLetter); err != nil {
			return err
		}
	}
	var before, gap any
	if follows {
		op |= opFromBefore
	} else if c.Before != nil {
		before = coder.pack(c.Before, &l.scratch)
	}
	back, body := l.pack(o, id, c, follows, coder)
	if c.Gap != "" {
		gap = c.Gap
	}
	l.objects.put(key, o)
	columns := []any{id, o.id, row.id, op, storedVersion(c.ResourceVersion), c.Time.UnixMilli(), gap, back, body, before}
	l.sum.add(columns...)
	_, err = t.run(addChange, columns...)
	return err
}

// codec returns the codec of a resource. A resource's dictionary is made from the first body that is packed.
func (l *slotLog) codec(t *tx, resource int64, first *change.Change) (codec, error) {
	if c, known := l.codecs[resource]; known {
		return c, nil
	}
	var dictionary []byte
	err := t.row(`select dictionary from log_dictionaries where resource = ?`, []any{resource}, &dictionary)
	if errors.Is(err, sql.ErrNoRows) {
		if dictionary = dictionaryOf(first.After); dictionary == nil {
			return codec{}, nil
		}
		err = t.do(`insert into log_dictionaries values (?, ?)`, resource, dictionary)
	}
	l.codecs[resource] = codecOf(dictionary)
	return l.codecs[resource], err
}
