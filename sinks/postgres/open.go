package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Open fences earlier owners of the slot in a separate transaction, which waits for a batch that is being written.
func (s *Sink) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	op := fmt.Sprintf("open the log of slot %d with epoch %d", slot, epoch)
	end, err := s.fence(ctx, slot, epoch, from)
	if fault.Is[*sinks.OtherClusterError](err) || fault.Is[*sinks.NewerEpochError](err) {
		return nil, err
	}
	if err == nil {
		err = s.makePartitions(ctx)
	}
	if err != nil {
		return nil, s.db.Fail(op, err)
	}
	log := &slotLog{sink: s, reader: &Reader{db: s.db, cluster: s.cluster}, slot: slot, epoch: epoch, opened: end,
		rows: newBatchRows()}
	opened := &sinks.Opened{Log: log, Content: log, Tail: sinks.NoTail}
	switch {
	case end.seq < from.Seq: // also if the checkpoint is new, because its rebuild after such a loss was interrupted
		opened.Lost = log.lost("it ends at batch %d, but the checkpoint is at batch %d: were its tables emptied, or "+
			"restored from "+
			"a backup, or did the server fail over to a standby that was behind?", end.seq, from.Seq)
	case from.New:
	default:
		removed, err := log.reader.removed(ctx, slot)
		if err != nil {
			return nil, s.db.Fail(op, err)
		}
		if opened.Lost = removed.Loss(); opened.Lost == nil {
			if opened.Hole, err = log.searchHole(ctx); err != nil {
				return nil, err
			}
		}
		opened.Last = end.seq
		opened.Tail = func(ctx context.Context, visit func(*sinks.Recovered) error) error {
			return log.readTail(ctx, from.Seq, visit)
		}
	}
	log.startMaintenance()
	return opened, nil
}

// tail is the end of a slot's log.
type tail struct {
	slot  int
	seq   uint64 // the number of the last batch
	epoch int64  // batches of older epochs were discarded
}

// fence raises the slot's epoch. It fails if the tables are another cluster's, or if the slot has this epoch or a higher one.
func (s *Sink) fence(ctx context.Context, slot int, epoch int64, from sinks.Durable) (tail, error) {
	var checkpointed *int64 // null if the checkpoint is new, because it reads no batch back
	if seq := int64(from.Seq); !from.New {
		checkpointed = &seq
	}
	t := tail{slot: slot}
	err := s.db.WithDeadline(ctx, 0, func(ctx context.Context) error { return s.raise(ctx, &t, epoch, checkpointed) })
	return t, err
}

func (s *Sink) raise(ctx context.Context, t *tail, epoch int64, checkpointed *int64) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if err := s.bindCluster(ctx, tx); err != nil {
			return err
		}
		// Streams move between slots. The previous slot's owner may have used a later clock, but what is written from now on must
		// come after everything in the log.
		const raise = `insert into kubecdc_log.slots as s (cluster, slot, epoch, checkpointed, written) values ($1, $2, $3, coalesce($4, 0),
				(select coalesce(max(written), '-infinity') + interval '1 microsecond' from kubecdc_log.slots where cluster = $1))
			on conflict (cluster, slot) do update set epoch = excluded.epoch, opened_at = now(),
				checkpointed = coalesce($4, s.seq), written = excluded.written
			where s.epoch < excluded.epoch returning seq, tail_epoch, xmax = 0`
		var first bool
		err := tx.QueryRow(ctx, raise, s.cluster, t.slot, epoch, checkpointed).Scan(&t.seq, &t.epoch, &first)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return s.newer(ctx, tx, "slots", t.slot, epoch)
		case err == nil && first: // if slots was emptied, two batches could get the same number
			return s.newer(ctx, tx, "batches", t.slot, epoch)
		}
		return err
	})
}

// newer returns the error with a table's highest epoch for the slot, or nil if that is lower than this one.
func (s *Sink) newer(ctx context.Context, tx pgx.Tx, table string, slot int, epoch int64) error {
	e := &sinks.NewerEpochError{Slot: slot}
	query := `select coalesce(max(epoch), 0) from kubecdc_log.` + table + ` where cluster = $1 and slot = $2`
	if err := tx.QueryRow(ctx, query, s.cluster, slot).Scan(&e.Epoch); err != nil || e.Epoch < epoch {
		return err
	}
	return e
}

// bindCluster stores the cluster's uid the first time, and compares it later. It updates the history that is set for the cluster.
func (s *Sink) bindCluster(ctx context.Context, tx pgx.Tx) error {
	if s.uid == "" {
		return nil
	}
	const insert = `insert into kubecdc_log.clusters (cluster, uid, history) values ($1, $2, $3) on conflict do nothing`
	if _, err := tx.Exec(ctx, insert, s.cluster, s.uid, interval(s.history)); err != nil {
		return err
	}
	if err := s.compare(ctx, tx); err != nil {
		return err
	}
	const wish = `update kubecdc_log.clusters set history = $2 where cluster = $1 and history is distinct from $2`
	_, err := tx.Exec(ctx, wish, s.cluster, interval(s.history))
	return err
}

// compare returns *sinks.OtherClusterError if the tables have another cluster of this name.
func (s *Sink) compare(ctx context.Context, db interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}) error {
	var stored string
	err := db.QueryRow(ctx, `select uid from kubecdc_log.clusters where cluster = $1`, s.cluster).Scan(&stored)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && (s.uid == "" || stored == s.uid || slices.Contains(s.uids, stored)):
		return nil
	case err != nil:
		return err
	}
	return &sinks.OtherClusterError{Log: s.db.Where(), Cluster: s.cluster, Stored: stored, Found: s.uid,
		Setting: "KUBECDC_SINK_POSTGRES"}
}

// VerifyCluster makes the same comparison as Open.
func (s *Sink) VerifyCluster(ctx context.Context, _ int, _ sinks.Durable) error {
	err := s.compare(ctx, s.db)
	if fault.Is[*sinks.OtherClusterError](err) {
		return err
	}
	return s.db.Fail("see whose log it is", err)
}
