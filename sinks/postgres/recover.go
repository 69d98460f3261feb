package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/sinks"
)

// readTail reads the batches after from, one after another, up to the end of the slot's log when this owner opened it. Two
// statements read each batch by its key, so that no cursor is open while the caller works.
func (l *slotLog) readTail(ctx context.Context, from uint64, visit func(*sinks.Recovered) error) error {
	last := storedBatch{slot: l.slot, epoch: l.opened.epoch} // before the first batch of that epoch
	for seq := from + 1; seq <= l.opened.seq; seq++ {
		var changes []change.Change
		err := l.sink.db.WithDeadline(ctx, 0, func(ctx context.Context) (err error) {
			if last, err = l.batchAfter(ctx, last, from); err == nil && last.seq == seq {
				changes, err = l.reader.changesOf(ctx, last)
			}
			return err
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows) || err == nil && last.seq != seq:
			return l.lost("batch %d is missing", seq)
		case err != nil:
			return l.sink.db.Fail(fmt.Sprintf("read batch %d of slot %d back", seq, l.slot), err)
		case len(changes) != last.changes:
			return l.lost("batch %d has %d of its %d changes", seq, len(changes), last.changes)
		}
		b := change.Batch{Slot: l.slot, Epoch: last.epoch, Seq: seq, Positions: last.positions, Changes: changes}
		if err := visit(&sinks.Recovered{Batch: b}); err != nil {
			return err
		}
	}
	return nil
}

// lost discards the rest of the tail. The next batch then follows the checkpoint's.
func (l *slotLog) lost(format string, args ...any) *sinks.LostTailError {
	l.restart = true
	return &sinks.LostTailError{Reason: fmt.Sprintf(format, args...)}
}

// storedBatch is a row of batches.
type storedBatch struct {
	slot      int
	epoch     int64
	seq       uint64
	written   time.Time
	changes   int
	positions []change.Position
}

// batchAfter returns the row after a batch, if its number is higher than from.
func (l *slotLog) batchAfter(ctx context.Context, last storedBatch, from uint64) (b storedBatch, err error) {
	const query = `select slot, epoch, seq, written, changes, positions from kubecdc_log.batches
		where cluster = $1 and slot = $2 and (epoch, seq) > ($3, $4) and seq > $5 order by epoch, seq limit 1`
	err = l.sink.db.QueryRow(ctx, query, l.sink.cluster, l.slot, last.epoch, int64(last.seq), int64(from)).
		Scan(&b.slot, &b.epoch, &b.seq, &b.written, &b.changes, &b.positions)
	return b, err
}

// changesOf reads the changes of a batch, only with their images after.
func (r *Reader) changesOf(ctx context.Context, b storedBatch) ([]change.Change, error) {
	changes := make([]change.Change, 0, b.changes)
	s := r.scan(sinks.Query{}, func(l *sinks.Logged) error {
		changes = append(changes, l.Change)
		return nil
	})
	s.images = lastImage
	return changes, s.group(ctx, []storedBatch{b})
}
