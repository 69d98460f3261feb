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
