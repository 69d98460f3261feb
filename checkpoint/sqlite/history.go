package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/positions"
)

// History gives the latest checkpoints of a slot, newest first.
func (s *Store) History(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	history, err := s.history(ctx, slot, limit)
	return history, s.fail(fmt.Sprintf("read the history of slot %d", slot), err)
}

func (s *Store) history(ctx context.Context, slot, limit int) (all []checkpoint.Checkpoint, err error) {
	const look = `select slot, epoch, seq, time, positions, offsets from checkpoints
		where cluster = ? and slot = ? order by seq desc limit ?`
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, look, s.cluster.Load(), slot, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		c, err := scanCheckpoint(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

func scanCheckpoint(rows *sql.Rows) (c checkpoint.Checkpoint, err error) {
	var micros int64
	var moved, offsets []byte
	if err := rows.Scan(&c.Slot, &c.Epoch, &c.Seq, &micros, &moved, &offsets); err != nil {
		return c, err
	}
	c.Time = time.UnixMicro(micros).UTC()
	if c.Positions, err = positions.Decode(moved); err != nil {
		return c, err
	}
	return c, json.Unmarshal(offsets, &c.Offsets)
}

// Prune forgets history older than the age, but never the newest of a slot, which is the one that the slot names.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	const prune = `delete from checkpoints as c where c.cluster = ?1 and c.time <= ?2
		and c.seq < (select seq from slots where cluster = c.cluster and slot = c.slot)`
	err := s.bound()
	if err == nil {
		_, err = s.db.ExecContext(ctx, prune, s.cluster.Load(), time.Now().Add(-age).UnixMicro())
	}
	return s.fail("prune the history", err)
}
