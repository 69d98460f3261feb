package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/sinks"
)

// Open takes the slot: first it fences earlier owners, in a transaction of its own, which waits for a batch that is
// just being written; then it reads what they wrote after the checkpoint. Where that can't be read any more it gives
// the log with *sinks.LostTailError, and with the batches that can be read up to there.
func (s *Sink) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (sinks.Log, []sinks.Recovered, error) {
	op := fmt.Sprintf("open the log of slot %d with epoch %d", slot, epoch)
	at, err := s.fence(ctx, slot, epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, s.tooOld(ctx, op, slot)
	}
	if err != nil {
		return nil, nil, s.db.Fail(op, err)
	}
	recovered, reason, err := s.recover(ctx, at, from)
	if err != nil {
		return nil, nil, s.db.Fail(op, err)
	}
	log := &slotLog{sink: s, slot: slot, epoch: epoch, restart: reason != ""}
	if reason != "" {
		return log, recovered, &sinks.LostTailError{Reason: reason, All: at.seq < from.Seq}
	}
	return log, recovered, nil
}

// tail says where a slot's log stands.
type tail struct {
	slot  int
	seq   uint64 // of the last batch
	epoch int64  // batches of older epochs were given up
}

// fence raises the slot's epoch; without a row where it is as high already.
func (s *Sink) fence(ctx context.Context, slot int, epoch int64) (tail, error) {
	const raise = `insert into kubecdc_log.slots as s (cluster, slot, epoch) values ($1, $2, $3)
		on conflict (cluster, slot) do update set epoch = excluded.epoch, opened_at = now() where s.epoch < excluded.epoch
		returning seq, tail_epoch`
	t := tail{slot: slot}
	err := s.db.QueryRow(ctx, raise, s.cluster, slot, epoch).Scan(&t.seq, &t.epoch)
	return t, err
}

// tooOld says who has the slot. It may be nobody: a checkpoint that was made anew, or restored from a backup, counts
// its epochs from the start.
func (s *Sink) tooOld(ctx context.Context, op string, slot int) error {
	var newest int64
	const look = `select epoch from kubecdc_log.slots where cluster = $1 and slot = $2`
	if err := s.db.QueryRow(ctx, look, s.cluster, slot).Scan(&newest); err != nil {
		return s.db.Fail(op, err)
	}
	return fmt.Errorf("%s in %s: it was opened with epoch %d already: %w; or, if no other process runs, the checkpoint is "+
		"not the one that this log was written with: give the cluster another name, or the log another database",
		op, s.db.Where(), newest, sinks.ErrFenced)
}
