package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// batch is a row of log_batches.
type batch struct {
	id, slot  int64
	epoch     int64
	seq       uint64
	written   int64
	changes   int64
	positions []byte // as they are stored
}

const batchColumns = `select id, slot, epoch, seq, written, changes, positions from log_batches `

func batches(ctx context.Context, db queries, query string, args ...any) (all []batch, err error) {
	err = each(ctx, db, batchColumns+query, args, func(rows *sql.Rows) error {
		var b batch
		err := rows.Scan(&b.id, &b.slot, &b.epoch, &b.seq, &b.written, &b.changes, &b.positions)
		all = append(all, b)
		return err
	})
	return all, err
}

// each reads rows, which are few: the statement is open until the last.
func each(ctx context.Context, db queries, query string, args []any, row func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// column reads rows of one value.
func column[T any](ctx context.Context, db queries, query string, args ...any) (all []T, err error) {
	err = each(ctx, db, query, args, func(rows *sql.Rows) error {
		var v T
		err := rows.Scan(&v)
		all = append(all, v)
		return err
	})
	return all, err
}

// tail reads the batches after from, one after another, up to where the log stood when this owner opened it.
func (l *slotLog) tail(ctx context.Context, from uint64, visit func(*sinks.Recovered) error) error {
	db := l.sink.file.DB()
	fail := func(err error) error { return l.sink.file.Fail(fmt.Sprintf("read the tail of slot %d", l.slot), err) }
	ids, err := l.tailIDs(ctx, from)
	if err != nil {
		return fail(err)
	}
	names, made := streamNames{db: db}, newBodies(db)
	for _, id := range ids {
		found, err := batches(ctx, db, `where id = ?`, id)
		if err != nil {
			return fail(err)
		}
		from++
		if len(found) == 0 || found[0].seq != from {
			return l.lost("batch %d is missing", from)
		}
		b := &found[0]
		r := sinks.Recovered{Batch: change.Batch{Slot: l.slot, Epoch: b.epoch, Seq: b.seq}}
		if r.Batch.Positions, _, err = names.positions(ctx, b); err != nil {
			return fail(err)
		}
		if r.Batch.Changes, err = changesOf(ctx, b, &names, made); err != nil {
			return fail(err)
		}
		if int64(len(r.Batch.Changes)) != b.changes {
			return l.lost("batch %d has %d of its %d changes", b.seq, len(r.Batch.Changes), b.changes)
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	if from != l.past.seq {
		return l.lost("batch %d is missing", from+1)
	}
	return nil
}

// tailIDs finds the tail from its end.
func (l *slotLog) tailIDs(ctx context.Context, from uint64) ([]int64, error) {
	const look = `with recursive tail (id, seq) as (
			select * from (select id, seq from log_batches where slot = ?1 and id <= ?2 order by id desc limit 1) where seq > ?3
			union all
			select b.id, b.seq from tail t join log_batches b on b.id = (select id from log_batches
				where slot = ?1 and id < t.id order by id desc limit 1)
			where b.seq > ?3)
		select id from tail order by id`
	return column[int64](ctx, l.sink.file.DB(), look, l.id, l.past.end, int64(from))
}

// lost gives up the rest of the tail. The next batch then follows the checkpoint's.
func (l *slotLog) lost(format string, args ...any) *sinks.LostTailError {
	l.restart = true
	return &sinks.LostTailError{Reason: fmt.Sprintf(format, args...)}
}

// changesOf reads the changes of a batch, in their order.
func changesOf(ctx context.Context, b *batch, names *streamNames, made *bodies) (changes []change.Change, err error) {
	query := columns(bothImages, noBatch) + byChange + `where c.id > ? and c.id <= ? order by c.id`
	for at, more := b.id, true; more; {
		var records []record
		if records, more, err = page(ctx, made.db, query, at, b.id+b.changes); err != nil {
			return nil, err
		}
		for i := range records {
			r := &records[i]
			var next sinks.Logged
			r.into(&next.Change)
			if next.Stream, err = names.of(ctx, r.stream); err != nil {
				return nil, err
			}
			if err := made.set(ctx, r, &next); err != nil {
				return nil, err
			}
			next.Before, next.Provenance = nil, change.Provenance{}
			changes, at = append(changes, next.Change), r.id
		}
	}
	return changes, nil
}

// streamNames are the streams of log_streams.
type streamNames struct {
	db   queries
	byID map[int64]*change.Stream
}

// of returns a stream. One that is not known yet was added since.
func (n *streamNames) of(ctx context.Context, id int64) (*change.Stream, error) {
	if s := n.byID[id]; s != nil {
		return s, nil
	}
	all := map[int64]*change.Stream{}
	err := each(ctx, n.db, `select id, stream from log_streams`, nil, func(rows *sql.Rows) error {
		var at int64
		var name change.StreamID
		if err := rows.Scan(&at, &name); err != nil {
			return err
		}
		all[at] = change.ParseStream(name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n.byID = all; all[id] == nil {
		return nil, fmt.Errorf("the log has no stream %d", id)
	}
	return all[id], nil
}

// positions gives a batch's positions, and the watermarks that say the same as some of them.
func (n *streamNames) positions(ctx context.Context, b *batch) (all []change.Position, watermarks []*change.Control, err error) {
	list, err := storedPositions(b.positions)
	for _, p := range list {
		s, err := n.of(ctx, p.stream)
		if err != nil {
			return nil, nil, err
		}
		at := time.UnixMilli(b.written - p.ago).UTC()
		position := change.Position{Stream: s.ID(), ResourceVersion: p.version, Time: at, Ended: p.ended}
		if all = append(all, position); p.marked == 1 {
			c := change.WatermarkControl(position)
			c.Version = change.LogVersion
			watermarks = append(watermarks, &c)
		}
	}
	return all, watermarks, err
}
