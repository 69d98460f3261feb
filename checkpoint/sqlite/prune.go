package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/fold"
)

// pruning forgets the history up to a time, and makes the oldest row that it keeps of each slot complete.
type pruning struct {
	tx      *sql.Tx
	ctx     context.Context
	cluster int64
	until   time.Time
}

func (p *pruning) run() error {
	oldest, err := p.oldest()
	for slot, second := range oldest {
		if err == nil {
			err = p.slot(slot, second)
		}
	}
	return err
}

// oldest gives the second of the oldest row to keep, by slot.
func (p *pruning) oldest() (map[int]int64, error) {
	const look = `select slot, coalesce(min(second) filter (where time > ?2), max(second)) from checkpoints where cluster = ?1 group by slot`
	rows, err := p.tx.QueryContext(p.ctx, look, p.cluster, p.until.UnixMicro())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[int]int64{}
	for rows.Next() {
		var slot int
		var second int64
		if err := rows.Scan(&slot, &second); err != nil {
			return nil, err
		}
		all[slot] = second
	}
	return all, rows.Err()
}

func (p *pruning) slot(slot int, oldest int64) error {
	const complete = `update checkpoints set offsets = ?, complete = true where cluster = ? and slot = ? and second = ?`
	const forget = `delete from checkpoints where cluster = ? and slot = ? and second < ?`
	offsets, err := p.fold(slot, oldest)
	if err != nil {
		return err
	}
	whole, _ := json.Marshal(offsets) // strings and numbers only: can't fail
	if _, err := p.tx.ExecContext(p.ctx, complete, string(whole), p.cluster, slot, oldest); err != nil {
		return err
	}
	_, err = p.tx.ExecContext(p.ctx, forget, p.cluster, slot, oldest)
	return err
}

// fold gives the offsets of all partitions, after the row of the second.
func (p *pruning) fold(slot int, second int64) (change.Offsets, error) {
	const look = `select offsets from checkpoints where cluster = ?1 and slot = ?2 and second <= ?3 and second >= (
		select max(second) from checkpoints where cluster = ?1 and slot = ?2 and complete and second <= ?3) order by second`
	rows, err := p.tx.QueryContext(p.ctx, look, p.cluster, slot, second)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all fold.Fold
	for rows.Next() {
		var row checkpoint.Checkpoint
		var offsets []byte
		err := rows.Scan(&offsets)
		if err == nil {
			err = json.Unmarshal(offsets, &row.Offsets)
		}
		if err != nil {
			return nil, err
		}
		all.Add(row, false)
	}
	return change.Offsets{}.Merge(all.Offsets()), rows.Err()
}
