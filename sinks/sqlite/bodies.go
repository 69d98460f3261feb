package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/change"
)

// Before implements sinks.Memory: it reads what the cache lacks in one transaction.
func (l *slotLog) Before(ctx context.Context, changes []*change.Change, memory func(n int) []byte) error {
	l.release()
	missing := changes[:0:0]
	for _, c := range changes {
		of := l.streams[c.Stream.ID()]
		o, known := l.objects.Get(nameOf(c, of).key())
		if !known {
			missing = append(missing, c)
		} else if err := l.before(c, o, l.codecs[of.resource], memory); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := l.sink.inTx(ctx, func(t *tx) error {
		for _, c := range missing {
			if err := l.readBefore(t, c, memory); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.forget()
	}
	return l.sink.file.Fail(fmt.Sprintf("read the bodies before the next batch of slot %d", l.slot), err)
}

func (l *slotLog) before(c *change.Change, o *object, with codec, memory func(n int) []byte) error {
	err := l.unpack(o, with, memory)
	c.Before = o.last
	return err
}

func (l *slotLog) readBefore(t *tx, c *change.Change, memory func(n int) []byte) error {
	of, err := l.stream(t, c.Stream.ID())
	if err != nil {
		return err
	}
	with, err := l.codec(t, of.resource, c)
	if err != nil {
		return err
	}
	name := nameOf(c, of)
	o, err := l.find(t, name, name.key())
	if err != nil || o == nil {
		return err
	}
	l.objects.put(name.key(), o)
	return l.before(c, o, with, memory)
}

// Bodies implements sinks.Memory, by the file alone.
func (l *slotLog) Bodies(ctx context.Context, id change.StreamID, keys []string, visit func(key string, body []byte) error) error {
	db := l.sink.file.DB()
	fail := func(err error) error { return l.sink.file.Fail("read bodies of stream "+string(id), err) }
	var of stream
	const look = `select s.id, s.resource from log_streams s join log_resources r on r.id = s.resource where r.cluster = ? and s.stream = ?`
	err := db.QueryRowContext(ctx, look, l.cluster, string(id)).Scan(&of.id, &of.resource)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	with, err := newBodies(db).codec(ctx, of.resource)
	if err != nil {
		return fail(err)
	}
	names := make(map[[2]string]string, len(keys))
	pairs := pairsOf(keys)
	for i, key := range keys {
		names[pairs[i]] = key
	}
	const read = `select o.namespace, o.name, c.id, c.back, c.body, w.body from json_each(?) k cross join log_objects o
		on o.resource = ? and o.namespace = k.value ->> 0 and o.name = k.value ->> 1 and o.gone is null and o.stream = ? ` + lastBody
	return fail(each(ctx, db, read, []any{list(pairs), of.resource, of.id}, func(rows *sql.Rows) error {
		var name [2]string
		var number int64
		var back sql.NullInt64
		var body, whole []byte
		if err := rows.Scan(&name[0], &name[1], &number, &back, &body, &whole); err != nil {
			return err
		}
		_, made, err := with.bodies(storedOf(number, back, body, whole), ownMemory)
		if err != nil || made == nil {
			return err
		}
		return visit(names[name], made)
	}))
}
