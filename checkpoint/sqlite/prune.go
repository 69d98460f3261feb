package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/history"
)

// Prune drops the rows that are older than the age, but never the newest of a slot. It makes the oldest row that it keeps of each
// slot complete. Signals that have ended before that are dropped too.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	err := s.inTx(ctx, func(t *transaction) error {
		oldest, err := t.oldestToKeep(time.Now().Add(-age))
		for slot, second := range oldest {
			if err == nil {
				err = t.prune(slot, second)
			}
		}
		if err == nil {
			const signals = `delete from signals where cluster = ? and answered < ? and not`
			_, err = t.exec(signals+isOpen, t.cluster, time.Now().Add(-age).UnixMicro())
		}
		return err
	})
	return s.fail("prune the history", err)
}

// oldestToKeep gives the second of the oldest row to keep, by slot.
func (t *transaction) oldestToKeep(until time.Time) (map[int]int64, error) {
	const look = `select slot, coalesce(min(second) filter (where time > ?2), max(second))
		from checkpoints where cluster = ?1 group by slot`
	rows, err := t.QueryContext(t.ctx, look, t.cluster, until.UnixMicro())
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

// prune drops the rows of a slot that are older than the second.
func (t *transaction) prune(slot int, oldest int64) error {
	const complete = `update checkpoints set offsets = ?, complete = true where cluster = ? and slot = ? and second = ?`
	const forget = `delete from checkpoints where cluster = ? and slot = ? and second < ?`
	offsets, err := t.offsetsAfter(slot, oldest)
	if err != nil {
		return err
	}
	whole, _ := json.Marshal(offsets) // strings and numbers only: can't fail
	if _, err := t.exec(complete, string(whole), t.cluster, slot, oldest); err != nil {
		return err
	}
	_, err = t.exec(forget, t.cluster, slot, oldest)
	return err
}

// offsetsAfter gives the offsets of all partitions, after the row of the second.
func (t *transaction) offsetsAfter(slot int, second int64) (change.Offsets, error) {
	const look = `select offsets from checkpoints where cluster = ?1 and slot = ?2 and second <= ?3 and second >= (
		select max(second) from checkpoints where cluster = ?1 and slot = ?2 and complete and second <= ?3) order by second`
	rows, err := t.QueryContext(t.ctx, look, t.cluster, slot, second)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all history.Builder
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

// Size is the size of the file, without what it has written ahead.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	const look = `select page_count * page_size from pragma_page_count(), pragma_page_size()`
	err = s.db.QueryRowContext(ctx, look).Scan(&bytes)
	return bytes, s.fail("measure the file", err)
}
