package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/pack"
	"kubecdc/checkpoint/internal/positions"
)

// Commit is one transaction: the slot first, which tells whether the rest may go on.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	err := s.bound()
	if err == nil {
		err = s.inTx(ctx, func(tx *sql.Tx) error {
			t := &commit{tx: tx, ctx: ctx, cluster: s.cluster.Load(), ids: map[change.StreamID]int64{}}
			return t.run(c)
		})
	}
	if errors.Is(err, checkpoint.ErrFenced) {
		return err
	}
	return s.fail(fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot), err)
}

type commit struct {
	tx      *sql.Tx
	ctx     context.Context
	cluster int64
	ids     map[change.StreamID]int64 // of streams
	packed  []byte                    // used again for each body: the driver copies it
}

func (t *commit) run(c checkpoint.Commit) error {
	if err := t.moveSlot(c); err != nil {
		return err
	}
	if err := t.movePositions(c.Positions); err != nil {
		return err
	}
	return t.moveObjects(c.Streams)
}

func (t *commit) moveObjects(streams []checkpoint.StreamCommit) error {
	for _, s := range streams {
		if err := t.delete(s); err != nil {
			return err
		}
		if err := t.upsert(s); err != nil {
			return err
		}
	}
	return nil
}

// moveSlot checks the epoch, moves the slot to the batch and notes it in the history.
func (t *commit) moveSlot(c checkpoint.Commit) error {
	const move = `update slots set seq = ?1, offsets = json_patch(offsets, ?2), pages = null
		where cluster = ?3 and slot = ?4 and epoch = ?5 and seq = ?1 - 1 returning offsets`
	moved, _ := json.Marshal(change.Offsets{}.Merge(c.Offsets)) // strings and numbers only: can't fail
	var offsets string
	err := t.tx.QueryRowContext(t.ctx, move, int64(c.Seq), string(moved), t.cluster, c.Slot, c.Epoch).Scan(&offsets)
	if errors.Is(err, sql.ErrNoRows) {
		return t.refused(c)
	}
	if err != nil {
		return err
	}
	return t.note(c, moved, []byte(offsets))
}

// note writes the history: what moved goes to the row of this second, or begins one, which is complete when it is the
// first of its hour. Streams have no null positions, so that json_patch merges as ||.
func (t *commit) note(c checkpoint.Commit, moved, after []byte) error {
	const last = `select coalesce(max(second), 0) from checkpoints where cluster = ? and slot = ?`
	const add = `update checkpoints set time = ?4, epoch = ?5, seq = ?6, positions = json_patch(positions, ?7), offsets = json_patch(offsets, ?8)
		where cluster = ?1 and slot = ?2 and second = ?3`
	now := time.Now()
	var second int64
	if err := t.tx.QueryRowContext(t.ctx, last, t.cluster, c.Slot).Scan(&second); err != nil {
		return err
	}
	if second < now.Unix() {
		if firstOfHour := second/3600 < now.Unix()/3600; firstOfHour {
			return t.noteRow(c, now.Unix(), now, after, true)
		}
		return t.noteRow(c, now.Unix(), now, moved, false)
	}
	_, err := t.tx.ExecContext(t.ctx, add, t.cluster, c.Slot, second, now.UnixMicro(), c.Epoch, int64(c.Seq),
		string(positions.Encode(c.Positions)), string(moved))
	return err
}

// noteRow writes a row, in the place of one of the same second.
func (t *commit) noteRow(c checkpoint.Commit, second int64, now time.Time, offsets []byte, complete bool) error {
	const note = `insert or replace into checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	_, err := t.tx.ExecContext(t.ctx, note, t.cluster, c.Slot, second, now.UnixMicro(), c.Epoch, int64(c.Seq),
		string(positions.Encode(c.Positions)), string(offsets), complete)
	return err
}

// noteWhole writes a row that stands for itself.
func (t *commit) noteWhole(c checkpoint.Commit, offsets []byte) error {
	const last = `select max(coalesce(max(second), 0), ?) from checkpoints where cluster = ? and slot = ?`
	now := time.Now()
	var second int64
	if err := t.tx.QueryRowContext(t.ctx, last, now.Unix(), t.cluster, c.Slot).Scan(&second); err != nil {
		return err
	}
	return t.noteRow(c, second, now, offsets, true)
}

// refused says why the slot did not move.
func (t *commit) refused(c checkpoint.Commit) error {
	if err := own(t.ctx, t.tx, t.cluster, c.Slot, c.Epoch, 0); err != nil {
		return err
	}
	return checkpoint.ErrBehind
}

func (t *commit) movePositions(list []change.Position) error {
	const set = `insert into positions (stream, resource_version, time, ended) values (?, ?, ?, ?)
		on conflict (stream) do update
		set resource_version = excluded.resource_version, time = excluded.time, ended = excluded.ended`
	const forget = `delete from positions where stream = ?`
	for _, p := range list {
		id, err := t.stream(p.Stream)
		if err != nil {
			return err
		}
		if p.Ended == change.EndedRemoved {
			_, err = t.tx.ExecContext(t.ctx, forget, id)
		} else {
			_, err = t.tx.ExecContext(t.ctx, set, id, p.ResourceVersion, p.Time.UnixMicro(), string(p.Ended))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stream gives the stream's row, which is made when it is missing.
func (t *commit) stream(name change.StreamID) (int64, error) {
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	const note = `insert into streams (cluster, name) values (?, ?) on conflict do update set name = name returning id`
	var id int64
	err := t.tx.QueryRowContext(t.ctx, note, t.cluster, name).Scan(&id)
	t.ids[name] = id
	return id, err
}

func (t *commit) delete(s checkpoint.StreamCommit) error {
	return t.each(`delete from inventory where stream = ? and key = ?`, s.Stream, len(s.Deletes), func(i int) []any {
		return []any{s.Deletes[i]}
	})
}

func (t *commit) upsert(s checkpoint.StreamCommit) error {
	const set = `insert into inventory (stream, key, uid, resource_version, body) values (?, ?, ?, ?, ?)
		on conflict (stream, key) do update
		set uid = excluded.uid, resource_version = excluded.resource_version, body = excluded.body`
	return t.each(set, s.Stream, len(s.Upserts), func(i int) []any {
		o := &s.Upserts[i]
		if o.Body == nil {
			return []any{o.Key, o.UID, o.ResourceVersion, nil}
		}
		t.packed = pack.Append(t.packed[:0], o.Body)
		return []any{o.Key, o.UID, o.ResourceVersion, t.packed}
	})
}

// each runs one prepared statement n times; its first parameter is the stream.
func (t *commit) each(query string, stream change.StreamID, n int, args func(i int) []any) error {
	if n == 0 {
		return nil
	}
	id, err := t.stream(stream)
	if err != nil {
		return err
	}
	statement, err := t.tx.PrepareContext(t.ctx, query)
	if err != nil {
		return err
	}
	defer statement.Close()
	for i := range n {
		if _, err := statement.ExecContext(t.ctx, append([]any{id}, args(i)...)...); err != nil {
			return err
		}
	}
	return nil
}
