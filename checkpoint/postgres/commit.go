package postgres

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/history"
	"kubecdc/internal/pgdb"
)

// Commit sends the whole batch in one statement and one round trip: see commit_batch in the migrations.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	if err := s.keepControls(ctx, c); err != nil {
		return err
	}
	answer, err := s.commit(ctx, c)
	return s.answered(fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot), answer, err)
}

// answered gives the error that the answer of a function in the migrations stands for.
func (s *Store) answered(op, answer string, err error) error {
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
			pgdb.JSONB("in_offsets", flatten(c.Offsets).json()), pgdb.JSONB("in_positions", history.EncodePositions(c.Positions)))
		return s.db.Call(ctx, "kubecdc.commit_batch", r.inventory(r.positions.AppendParams(params))...)
	})
}

// owner gives the parameters that say which owner of which slot calls.
func (s *Store) owner(slot int, epoch int64) []pgdb.Param {
	params := make([]pgdb.Param, 0, 20)
	return append(params, pgdb.Int4("in_cluster", s.cluster.Load()), pgdb.Int4("in_slot", int32(slot)), pgdb.Int8("in_epoch", epoch))
}

// callWithRows makes the rows of the commit, and lends them to call.
func (s *Store) callWithRows(ctx context.Context, c checkpoint.Commit, call func(*commitRows) (string, error)) (string, error) {
	if err := s.bound(); err != nil {
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
