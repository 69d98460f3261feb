package postgres

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
	"kubecdc/internal/pgdb"
)

// Commit sends the batch in one statement and one round trip: see commit_batch in the migrations.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	op := fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot)
	if len(c.Controls) > 0 { // a statement of their own, since most commits have none
		err := s.Owned(ctx, c.Slot, c.Epoch, func(t *tables.Tx) error { return t.KeepControls(c.Controls) })
		if err != nil {
			return s.db.Fail(op, err)
		}
	}
	answer, err := s.commit(ctx, c)
	return s.errorOf(op, answer, err)
}

// errorOf returns the error for the answer of a function in the migrations.
func (s *Store) errorOf(op, answer string, err error) error {
	switch {
	case err != nil:
	case answer == "fenced":
		err = checkpoint.ErrFenced
	case answer == "behind":
		err = checkpoint.ErrBehind
	}
	return s.db.Fail(op, err)
}

func (s *Store) commit(ctx context.Context, c checkpoint.Commit) (answer string, err error) {
	return s.callWithRows(ctx, c, func(r *commitRows) (string, error) {
		params := append(s.owner(c.Slot, c.Epoch), pgdb.Int8("in_after", int64(c.After())), pgdb.Int8("in_seq", int64(c.Seq)),
			pgdb.Bool("in_relaxed", s.relaxed),
			pgdb.JSONB("in_offsets", flatten(c.Offsets)), pgdb.JSONB("in_positions", tables.EncodePositions(c.Positions)))
		return s.db.Call(ctx, "kubecdc.commit_batch", r.inventory(r.positions.AppendParams(params))...)
	})
}

// owner returns the parameters with the caller's slot and epoch.
func (s *Store) owner(slot int, epoch int64) []pgdb.Param {
	params := make([]pgdb.Param, 0, 20)
	return append(params, pgdb.Int4("in_cluster", int32(s.Cluster())), pgdb.Int4("in_slot", int32(slot)),
		pgdb.Int8("in_epoch", epoch))
}

// callWithRows makes the rows of the commit, and calls call with them. They are valid until call returns.
func (s *Store) callWithRows(ctx context.Context, c checkpoint.Commit, call func(*commitRows) (string, error)) (string, error) {
	if err := s.Bound(); err != nil {
		return "", err
	}
	ids, err := s.streamIDs(ctx, streamNames(c))
	if err != nil {
		return "", err
	}
	r := commitPool.Get().(*commitRows)
	defer commitPool.Put(r)
	r.fill(c, ids)
	return call(r)
}

func streamNames(c checkpoint.Commit) []change.StreamID {
	names := make([]change.StreamID, 0, len(c.Positions)+len(c.Streams))
	for _, p := range c.Positions {
		names = append(names, p.Stream)
	}
	for _, s := range c.Streams {
		names = append(names, s.Stream)
	}
	return names
}

func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	op := fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot)
	c := checkpoint.Commit{Slot: slot, Epoch: epoch, Streams: streams}
	answer, err := s.callWithRows(ctx, c, func(r *commitRows) (string, error) {
		return s.db.Call(ctx, "kubecdc.put_page", r.inventory(append(s.owner(slot, epoch), pgdb.Int4("in_page", int32(page))))...)
	})
	return s.errorOf(op, answer, err)
}
