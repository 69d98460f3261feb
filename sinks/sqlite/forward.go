package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Forward visits a slot's batches after a number in their order, up to the end of the log, with everything that was written. A
// batch is valid until visit returns. visit may call the log.
func (m *Memory) Forward(ctx context.Context, slot int, after uint64, visit func(*change.Batch) error) error {
	f := forward{reader: m.reader, maker: newMaker(m.reader.db), kinds: map[kind]*change.Stream{}}
	f.slot.number = slot
	var from int64
	var err, failed error // failed is the error of visit, or of one batch
	if f.slot.id, err = m.slot(ctx, slot); err == nil && f.slot.id != 0 {
		from, err = m.reader.first(ctx, f.slot.id, func(b *batch) bool { return b.seq > after })
	}
	if err != nil || f.slot.id == 0 {
		return m.reader.fail("find the slot", err)
	}
	err = m.reader.inOrder(ctx, f.slot.id, from, 1<<62,
		func(ctx context.Context, stored *batch, records []*change.Control) error {
			b, err := f.batch(ctx, stored, records)
			if failed = m.reader.fail(fmt.Sprintf("read batch %d of slot %d", stored.seq, slot), err); err == nil {
				failed = visit(b)
			}
			return failed
		})
	return cmp.Or(failed, m.reader.fail(fmt.Sprintf("read the batches of slot %d", slot), err))
}

// forward reads the batches of one slot.
type forward struct {
	reader *Reader
	slot   struct {
		id     int64
		number int
	}
	maker
	kinds map[kind]*change.Stream
}

// kind is a stream with one version of its resource.
type kind struct {
	id            change.StreamID
	version, name string
	namespaced    bool
}

func (f *forward) batch(ctx context.Context, b *batch, records []*change.Control) (*change.Batch, error) {
	positions, watermarks, err := f.names.positions(ctx, b)
	if err != nil {
		return nil, err
	}
	all := &change.Batch{Slot: f.slot.number, Epoch: b.epoch, Seq: b.seq, Positions: positions,
		Changes: make([]change.Change, 0, b.changes)}
	for _, c := range append(records, watermarks...) {
		all.Controls = append(all.Controls, *c)
	}
	const malformed = `select stream, reason, body from log_dead_letters where batch = ? order by n`
	err = each(ctx, f.reader.db, malformed, []any{b.id}, func(rows *sql.Rows) error {
		var m change.Malformed
		err := rows.Scan(&m.Stream, &m.Reason, &m.Bytes)
		all.Malformed = append(all.Malformed, m)
		return err
	})
	if err != nil || b.changes == 0 {
		return all, err
	}
	s := &scan{reader: f.reader, slots: map[int64]int{f.slot.id: f.slot.number}, maker: f.maker}
	s.visit = func(l *sinks.Logged) error {
		l.Stream = f.withKind(&l.Change)
		all.Changes = append(all.Changes, l.Change)
		return nil
	}
	if _, err = s.pages(ctx, `where c.id > ? and c.id <= ? order by c.id`, b.id, b.id+b.changes); err != nil {
		return nil, err
	}
	if int64(len(all.Changes)) != b.changes {
		return nil, fmt.Errorf("%w: %d of %d changes are there", ErrDamaged, len(all.Changes), b.changes)
	}
	return all, nil
}

// withKind completes a change's stream with the kind of its object.
func (f *forward) withKind(c *change.Change) *change.Stream {
	object := c.After
	if object == nil {
		object = c.Before
	}
	s := c.Stream.WithKind(object)
	objects := s.Objects()
	key := kind{s.ID(), objects.Version, objects.Kind, c.Namespace != ""}
	if f.kinds[key] == nil {
		r := s.Resource
		r.Namespaced = key.namespaced
		if !s.ID().IsSnapshot() {
			s = s.As(r)
		}
		f.kinds[key] = s
	}
	return f.kinds[key]
}

// ChangedObjects visits the key of each object of a stream with a change in the log, live or deleted. If keys is not nil, it
// visits only these.
func (m *Memory) ChangedObjects(ctx context.Context, stream change.StreamID, keys []string, visit func(key string)) error {
	const all = `select distinct o.namespace, o.name from log_streams s join log_objects o on o.stream = s.id where s.stream = ?`
	const some = `select distinct o.namespace, o.name from log_streams s cross join json_each(?2) k cross join log_objects o
		on o.resource = s.resource and o.key = k.value where s.stream = ?1 and o.stream = s.id`
	query, args := all, []any{string(stream)}
	if keys != nil {
		query, args = some, append(args, list(storedKeys(keys)))
	}
	err := each(ctx, m.reader.db, query, args, func(rows *sql.Rows) error {
		var namespace, name string
		err := rows.Scan(&namespace, &name)
		visit(change.ObjectKey(namespace, name))
		return err
	})
	return m.reader.fail("read which objects of "+string(stream)+" have changed", err)
}

func storedKeys(keys []string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = storedKey(key)
	}
	return all
}
