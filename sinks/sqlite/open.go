package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Open fences earlier owners of the slot: each batch is written under "where epoch = mine".
func (s *Sink) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	l := newSlotLog(s, slot, epoch)
	err := s.inTx(ctx, l.raise)
	if fault.Is[*sinks.OtherClusterError](err) || fault.Is[*sinks.NewerEpochError](err) {
		return nil, err
	}
	if err != nil {
		return nil, s.file.Fail(fmt.Sprintf("open the log of slot %d with epoch %d", slot, epoch), err)
	}
	opened := &sinks.Opened{Log: l, Tail: sinks.NoTail, Bodies: l}
	switch {
	case l.past.seq < from.Seq:
		l.restart = true
		opened.Lost = &sinks.LostTailError{Reason: fmt.Sprintf("it ends at batch %d, but the checkpoint is at batch %d: was the file "+
			"restored from a backup?", l.past.seq, from.Seq)}
	case from.New:
	default:
		if opened.Lost, err = l.losses(ctx); err != nil {
			return nil, s.file.Fail(fmt.Sprintf("find out what the log of slot %d has lost", slot), err)
		}
		opened.Last = l.past.seq
		opened.Tail = func(ctx context.Context, visit func(*sinks.Recovered) error) error {
			return l.tail(ctx, from.Seq, visit)
		}
	}
	maintained, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	go l.maintain(maintained)
	return opened, nil
}

// raise raises the slot's epoch, unless the log is another cluster's, or the slot has this epoch or a higher one.
func (l *slotLog) raise(t *tx) (err error) {
	if l.cluster, err = l.sink.bind(t); err != nil {
		return err
	}
	if err := t.row(`select end from (`+lastBatch+`)`, nil, &l.past.end); err != nil {
		return err
	}
	const look = `select id, epoch, seq from log_slots where cluster = ? and slot = ?`
	var newest int64
	err = t.row(look, []any{l.cluster, l.slot}, &l.id, &newest, &l.past.seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		const add = `insert into log_slots (cluster, slot, epoch) values (?, ?, ?) returning id`
		return t.row(add, []any{l.cluster, l.slot, l.epoch}, &l.id)
	case err != nil:
		return err
	case newest >= l.epoch:
		return &sinks.NewerEpochError{Slot: l.slot, Epoch: newest}
	}
	return t.do(`update log_slots set epoch = ? where id = ?`, l.epoch, l.id)
}

// bind notes the cluster's uid the first time, and compares it later. It returns the cluster's row.
func (s *Sink) bind(t *tx) (cluster int64, err error) {
	const note = `insert into log_clusters (cluster, uid) values (?, ?) on conflict do nothing`
	if err := t.do(note, s.Cluster, s.ClusterUID); err != nil {
		return 0, err
	}
	var stored string
	if err := t.row(`select id, uid from log_clusters where cluster = ?`, []any{s.Cluster}, &cluster, &stored); err != nil {
		return 0, err
	}
	return cluster, s.compare(stored)
}
