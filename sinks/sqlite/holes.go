package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// Somebody may remove rows from the middle of the log. The batches of a slot have consecutive numbers, and each says how many
// changes follow it. Batches that the history has removed come before all retained ones.

// line is a place in a slot's batches. All holes before it are explained.
type line struct {
	id  int64
	seq uint64
}

// counted is a batch, with the number of changes that it has. When it was read, the retained history began after a number, and
// the first batch was the oldest one.
type counted struct {
	line
	changes, has, after, oldest int64
	sum                         sql.NullInt64
}

// countBatches selects the batches of a slot after one.
const countBatches = `select id, seq, changes, (select count(*) from log_changes c where c.id > b.id and c.id <= b.id + b.changes), sum, k.after,
		(select min(id) from log_batches where id > k.after) from log_batches b, log_kept k where slot = ?1 and id > ?2 order by id limit 500`

// findHole searches for a hole after a place, until a time, unless that is zero. It returns how far it came.
func (r *Reader) findHole(ctx context.Context, slot int64, last line, until time.Time) (line, *sinks.Hole, error) {
	for {
		var page []counted
		err := each(ctx, r.db, countBatches, []any{slot, last.id}, func(rows *sql.Rows) error {
			var b counted
			err := rows.Scan(&b.id, &b.seq, &b.changes, &b.has, &b.sum, &b.after, &b.oldest)
			page = append(page, b)
			return err
		})
		if err != nil || len(page) == 0 {
			return last, nil, r.fail("search for holes in the log", err)
		}
		began := time.Now()
		for i := range page {
			h, err := r.holeBefore(ctx, slot, last, &page[i])
			if err != nil || h != nil {
				return last, h, r.fail("search for holes in the log", err)
			}
			if last = page[i].line; !until.IsZero() && time.Now().After(until) {
				return last, nil, nil
			}
		}
		if until.IsZero() {
			if err := wait.For(ctx, time.Since(began)); err != nil { // leaves half of the time to others
				return last, nil, err
			}
		}
	}
}

// holeBefore returns the hole between two batches that follow each other in the file, or in the second one.
func (r *Reader) holeBefore(ctx context.Context, slot int64, previous line, b *counted) (*sinks.Hole, error) {
	switch {
	case b.id <= b.after:
		return nil, nil
	case previous.id > b.after && b.seq != previous.seq+1, previous.id <= b.after && b.oldest > b.after+1:
		return r.hole(ctx, slot, previous.id, b.id, 1<<62, fmt.Sprintf("batch %d follows batch %d", b.seq, previous.seq))
	case b.has != b.changes:
		return r.hole(ctx, slot, b.id-1, b.id, b.id, fmt.Sprintf("batch %d has %d of its %d changes", b.seq, b.has, b.changes))
	case !b.sum.Valid:
		return nil, nil
	}
	found, err := r.sumOf(ctx, b.id)
	if err != nil || int64(found) == b.sum.Int64 {
		return nil, err
	}
	if after, _, err := r.retained(ctx); err != nil || b.id <= after { // it was pruned meanwhile
		return nil, err
	}
	return r.hole(ctx, slot, b.id-1, b.id, b.id, fmt.Sprintf("batch %d is not what was written", b.seq))
}

// hole returns the hole between two batches of a slot, or nil if it is explained. It has the streams whose positions the batches
// from after to last move.
func (r *Reader) hole(ctx context.Context, slot, before, after, last int64, reason string) (*sinks.Hole, error) {
	const (
		query = `select s.stream, p.value ->> 1 from log_batches b, json_each(b.positions) p join log_streams s on s.id = p.value ->> 0
			where b.slot = ?1 and b.id >= ?2 and b.id <= ?3 order by b.id`
		gaps = `select record from log_controls where batch >= ? and (record like '%"type":"gap"%' or record like '%"type":"snapshot-begin"%')`
	)
	moves := func(from, to int64) sinks.Moves {
		return func(visit func(change.StreamID, change.ResourceVersion)) error {
			return each(ctx, r.db, query, []any{slot, from, to}, func(rows *sql.Rows) error {
				var stream change.StreamID
				var version string
				err := rows.Scan(&stream, &version)
				visit(stream, change.ResourceVersion(version))
				return err
			})
		}
	}
	h := &sinks.Hole{Reason: reason, InBatch: after == last}
	return h.Unexplained(moves(0, before), moves(after, last), func(visit func([]byte) error) error {
		return each(ctx, r.db, gaps, []any{after}, func(rows *sql.Rows) error {
			var record []byte
			if err := rows.Scan(&record); err != nil {
				return err
			}
			return visit(record)
		})
	})
}

// searchHole searches for a hole no longer than HoleTime. It returns the hole, or nil.
func (l *slotLog) searchHole(ctx context.Context) (*sinks.Hole, error) {
	return l.sink.searches.Search(l.slot, func(after line, _ bool, until time.Time) (line, *sinks.Hole, error) {
		return l.reader.findHole(ctx, l.id, after, until)
	})
}

// Hole returns the first hole that no record explains, or nil. A damaged page counts as a hole, too.
func (r *Reader) Hole(ctx context.Context) (h *sinks.Hole, err error) {
	slots, _, err := r.slots(ctx)
	for id := range slots {
		if err == nil && h == nil {
			_, h, err = r.findHole(ctx, id, line{}, time.Time{})
		}
	}
	if err != nil || h != nil {
		return h, err
	}
	tables, err := column[string](ctx, r.db, `select name from sqlite_schema where type = 'table'`)
	for _, table := range tables {
		began := time.Now()
		var found []string
		if err == nil {
			found, err = column[string](ctx, r.db, `select * from pragma_integrity_check(?)`, table)
		}
		if err == nil && !slices.Equal(found, []string{"ok"}) {
			return &sinks.Hole{Reason: fmt.Sprintf("the table %s is damaged: %s", table, strings.Join(found, "; "))}, nil
		}
		if err == nil {
			err = wait.For(ctx, time.Since(began)) // leaves half of the time to others
		}
	}
	return nil, r.fail("check the pages of the log", err)
}
