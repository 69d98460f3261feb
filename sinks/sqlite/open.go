package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Open fences earlier owners of the slot: each batch is written under "where epoch = mine". The log knows where to continue.
func (s *Sink) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	l := newSlotLog(s, slot, epoch)
	opened := &sinks.Opened{Log: l, Memory: l}
	if !s.Spool {
		from.Seq = 0
	}
	err := s.inTx(ctx, func(t *tx) (err error) {
		opened.Last, err = l.raise(t, from.Seq)
		return err
	})
	if fault.Is[*sinks.OtherClusterError](err) || fault.Is[*sinks.NewerEpochError](err) {
		return nil, err
	}
	if err == nil {
		var removed sinks.Removed
		removed, err = l.reader.removed(ctx, nil)
		opened.Lost = removed.Loss()
	}
	if err == nil && opened.Lost == nil && !s.Spool {
		opened.Hole, err = l.searchHole(ctx)
	}
	if err != nil {
		return nil, s.file.Fail(fmt.Sprintf("open the log of slot %d with epoch %d", slot, epoch), err)
	}
	l.first = opened.Last + 1
	maintained, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	go l.maintain(maintained)
	return opened, nil
}

// raise raises the slot's epoch. It fails if the log is another cluster's, or if the slot has this epoch or a higher one. A new
// slot begins after a batch. It returns the slot's last batch.
func (l *slotLog) raise(t *tx, after uint64) (last uint64, err error) {
	if l.cluster, err = l.sink.bind(t, l.sink.Cluster); err != nil {
		return 0, err
	}
	const query = `select id, epoch, seq from log_slots where cluster = ? and slot = ?`
	var newest int64
	err = t.row(query, []any{l.cluster, l.slot}, &l.id, &newest, &last)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		const add = `insert into log_slots (cluster, slot, epoch, seq) values (?, ?, ?, ?) returning id`
		return after, t.row(add, []any{l.cluster, l.slot, l.epoch, int64(after)}, &l.id)
	case err != nil:
		return 0, err
	case newest >= l.epoch:
		return 0, &sinks.NewerEpochError{Slot: l.slot, Epoch: newest}
	}
	return last, t.do(`update log_slots set epoch = ? where id = ?`, l.epoch, l.id)
}

// bind stores the uid of a cluster the first time, and compares it later. It returns the id of the cluster's row.
func (s *Sink) bind(t *tx, name string) (cluster int64, err error) {
	const insert = `insert into log_clusters (cluster, uid) values (?, ?) on conflict do nothing`
	if err := t.do(insert, name, s.ClusterUID); err != nil {
		return 0, err
	}
	var stored string
	if err := t.row(`select id, uid from log_clusters where cluster = ?`, []any{name}, &cluster, &stored); err != nil {
		return 0, err
	}
	return cluster, s.compare(stored)
}
