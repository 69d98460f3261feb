package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"kubecdc/change"
)

// batch is a row of log_batches.
type batch struct {
	id, slot  int64
	epoch     int64
	seq       uint64
	written   int64
	changes   int64
	positions []byte // as stored
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

// each reads a small number of rows: the statement is open until the last one is read.
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

// column reads rows with one column.
func column[T any](ctx context.Context, db queries, query string, args ...any) (all []T, err error) {
	err = each(ctx, db, query, args, func(rows *sql.Rows) error {
		var v T
		err := rows.Scan(&v)
		all = append(all, v)
		return err
	})
	return all, err
}

// streamNames reads streams from log_streams, and caches them.
type streamNames struct {
	db   queries
	byID map[int64]*change.Stream
}

// stream returns a stream. If it is not in the cache, it was added since the last read.
func (n *streamNames) stream(ctx context.Context, id int64) (*change.Stream, error) {
	if s := n.byID[id]; s != nil {
		return s, nil
	}
	all := map[int64]*change.Stream{}
	err := each(ctx, n.db, `select id, stream from log_streams`, nil, func(rows *sql.Rows) error {
		var ms int64
		var name change.StreamID
		if err := rows.Scan(&ms, &name); err != nil {
			return err
		}
		all[ms] = change.ParseStream(name)
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

// positions returns a batch's positions, and the watermarks that are implied by some of them.
func (n *streamNames) positions(ctx context.Context, b *batch) (all []change.Position, watermarks []*change.Control, err error) {
	list, err := storedPositions(b.positions)
	for _, p := range list {
		s, err := n.stream(ctx, p.stream)
		if err != nil {
			return nil, nil, err
		}
		moment := time.UnixMilli(b.written - p.ago).UTC()
		position := change.Position{Stream: s.ID(), ResourceVersion: p.version, Time: moment, Ended: p.ended}
		if all = append(all, position); p.marked == 1 {
			c := change.WatermarkControl(position)
			c.Version = change.LogVersion
			watermarks = append(watermarks, &c)
		}
	}
	return all, watermarks, err
}
