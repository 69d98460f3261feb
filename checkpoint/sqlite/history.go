package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/history"
)

// History gives the latest checkpoints of a slot, newest first.
func (s *Store) History(ctx context.Context, slot, limit int) ([]checkpoint.Checkpoint, error) {
	return s.Select(ctx, slot, checkpoint.Window{Limit: limit})
}

// Select gives the checkpoints of a slot in a window, newest first.
func (s *Store) Select(ctx context.Context, slot int, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	history, err := s.history(ctx, slot, w)
	return history, s.fail(fmt.Sprintf("read the history of slot %d", slot), err)
}

// lookHistory begins at the last complete row before the oldest wanted one.
const lookHistory = `
with wanted as (select second from checkpoints where cluster = ?1 and slot = ?2
    and time >= ?3 and time <= ?4 and (?6 = 0 or seq = ?6) order by second desc limit ?5),
  oldest as (select min(second) as second from wanted)
select c.epoch, c.seq, c.time, c.positions, c.offsets, c.second >= (select second from oldest)
from checkpoints c where c.cluster = ?1 and c.slot = ?2 and c.second >= (
  select max(b.second) from checkpoints b
  where b.cluster = ?1 and b.slot = ?2 and b.complete and b.second <= (select second from oldest))
  and c.second <= (select max(second) from wanted)
order by c.second`

func (s *Store) history(ctx context.Context, slot int, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	since, until, limit := int64(math.MinInt64), int64(math.MaxInt64), cmp.Or(w.Limit, -1)
	if !w.Since.IsZero() {
		since = w.Since.UnixMicro()
	}
	if !w.Until.IsZero() {
		until = w.Until.UnixMicro()
	}
	rows, err := s.db.QueryContext(ctx, lookHistory, s.cluster.Load(), slot, since, until, limit, int64(w.Batch))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all history.Builder
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
		if c.Positions, err = history.DecodePositions(moved); err != nil {
			return c, wanted, err
		}
	}
	return c, wanted, json.Unmarshal(offsets, &c.Offsets)
}

// note adds what moved to the history: to the row of this second, or to a new one, which is complete if it is the first of its
// hour. json_patch would drop nulls, which neither positions nor offsets have.
func (t *transaction) note(c checkpoint.Commit, moved, after []byte) error {
	const last = `select coalesce(max(second), 0) from checkpoints where cluster = ? and slot = ?`
	const add = `update checkpoints set time = ?4, epoch = ?5, seq = ?6, positions = json_patch(positions, ?7),
			offsets = json_patch(offsets, ?8)
		where cluster = ?1 and slot = ?2 and second = ?3`
	now := time.Now()
	var second int64
	if err := t.QueryRowContext(t.ctx, last, t.cluster, c.Slot).Scan(&second); err != nil {
		return err
	}
	if second < now.Unix() {
		if firstOfHour := second/3600 < now.Unix()/3600; firstOfHour {
			return t.noteRow(c, now.Unix(), now, after, true)
		}
		return t.noteRow(c, now.Unix(), now, moved, false)
	}
	_, err := t.exec(add, t.cluster, c.Slot, second, now.UnixMicro(), c.Epoch, int64(c.Seq),
		string(history.EncodePositions(c.Positions)), string(moved))
	return err
}

// noteRow writes a row, and replaces one of the same second.
func (t *transaction) noteRow(c checkpoint.Commit, second int64, now time.Time, offsets []byte, complete bool) error {
	const note = `insert or replace into checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	_, err := t.exec(note, t.cluster, c.Slot, second, now.UnixMicro(), c.Epoch, int64(c.Seq),
		string(history.EncodePositions(c.Positions)), string(offsets), complete)
	return err
}

// noteWhole writes a complete row.
func (t *transaction) noteWhole(c checkpoint.Commit, offsets []byte) error {
	const last = `select max(coalesce(max(second), 0), ?) from checkpoints where cluster = ? and slot = ?`
	now := time.Now()
	var second int64
	if err := t.QueryRowContext(t.ctx, last, now.Unix(), t.cluster, c.Slot).Scan(&second); err != nil {
		return err
	}
	return t.noteRow(c, second, now, offsets, true)
}
