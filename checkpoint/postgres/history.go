package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/positions"
)

// History gives the latest checkpoints of a slot, newest first.
func (s *Store) History(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	history, err := s.history(ctx, slot, limit)
	return history, s.db.Fail(fmt.Sprintf("read the history of slot %d", slot), err)
}

func (s *Store) history(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	const look = `select epoch, seq, time, positions, offsets from kubecdc.checkpoints
		where cluster = $1 and slot = $2 order by seq desc limit $3`
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, look, s.cluster.Load(), slot, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (checkpoint.Checkpoint, error) {
		c := checkpoint.Checkpoint{Slot: slot}
		var offsets flatOffsets
		var moved []byte
		err := row.Scan(&c.Epoch, &c.Seq, &c.Time, &moved, &offsets)
		if err == nil {
			c.Positions, err = positions.Decode(moved)
		}
		if err == nil {
			c.Offsets, err = offsets.nested()
		}
		c.Time = c.Time.UTC()
		return c, err
	})
}

// Prune forgets history older than the age, but never the newest of a slot, which is the one that the slot names.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	const prune = `delete from kubecdc.checkpoints c using kubecdc.slots s
		where c.cluster = $1 and c.time <= now() - $2::interval
		  and s.cluster = c.cluster and s.slot = c.slot and c.seq < s.seq`
	err := s.bound()
	if err == nil {
		_, err = s.db.Exec(ctx, prune, s.cluster.Load(), age)
	}
	return s.db.Fail("prune the history", err)
}
