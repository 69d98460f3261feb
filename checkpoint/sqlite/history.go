package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/fold"
	"kubecdc/checkpoint/internal/positions"
)

// History gives the latest checkpoints of a slot, newest first.
func (s *Store) History(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	history, err := s.history(ctx, slot, limit)
	return history, s.fail(fmt.Sprintf("read the history of slot %d", slot), err)
}

// lookHistory begins at the complete row that the oldest wanted one is folded from.
const lookHistory = `
with wanted as (select second from checkpoints where cluster = ?1 and slot = ?2 order by second desc limit ?3),
  oldest as (select min(second) as second from wanted)
select c.epoch, c.seq, c.time, c.positions, c.offsets, c.second >= (select second from oldest)
from checkpoints c where c.cluster = ?1 and c.slot = ?2 and c.second >= (
  select max(b.second) from checkpoints b
  where b.cluster = ?1 and b.slot = ?2 and b.complete and b.second <= (select second from oldest))
order by c.second`

func (s *Store) history(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, lookHistory, s.cluster.Load(), slot, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all fold.Fold
	for rows.Next() {
		c, wanted, err := scanRow(rows)
		if err != nil {
			return nil, err
		}
		c.Slot = slot
		all.Add(c, wanted)
	}
	return all.NewestFirst(), rows.Err()
}

func scanRow(rows *sql.Rows) (c checkpoint.Checkpoint, wanted bool, err error) {
	var micros int64
	var moved, offsets []byte
	if err := rows.Scan(&c.Epoch, &c.Seq, &micros, &moved, &offsets, &wanted); err != nil {
		return c, wanted, err
	}
	c.Time = time.UnixMicro(micros).UTC()
	if wanted {
		if c.Positions, err = positions.Decode(moved); err != nil {
			return c, wanted, err
		}
	}
	return c, wanted, json.Unmarshal(offsets, &c.Offsets)
}

// Prune forgets history older than the age, but never the newest of a slot, which is the one that the slot names.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	err := s.bound()
	if err == nil {
		err = s.inTx(ctx, func(tx *sql.Tx) error {
			return (&pruning{tx: tx, ctx: ctx, cluster: s.cluster.Load(), until: time.Now().Add(-age)}).run()
		})
	}
	return s.fail("prune the history", err)
}
