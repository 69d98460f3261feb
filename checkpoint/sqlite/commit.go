package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Commit is one transaction. It moves the slot first, since that tells whether the rest may go on.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	err := s.inTx(ctx, func(t *transaction) error {
		if err := t.moveSlot(c); err != nil {
			return err
		}
		if err := t.movePositions(c.Positions); err != nil {
			return err
		}
		if err := t.keepControls(c.Controls); err != nil {
			return err
		}
		return t.moveObjects(c.Streams)
	})
	return s.fail(fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot), err)
}

func (t *transaction) moveObjects(streams []checkpoint.StreamCommit) error {
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
func (t *transaction) moveSlot(c checkpoint.Commit) error {
	const move = `update slots set seq = ?1, offsets = json_patch(offsets, ?2), pages = null
		where cluster = ?3 and slot = ?4 and epoch = ?5 and seq = ?6 returning offsets`
	moved, _ := json.Marshal(change.Offsets{}.Merge(c.Offsets)) // strings and numbers only: can't fail
	var offsets string
	err := t.QueryRowContext(t.ctx, move, int64(c.Seq), string(moved), t.cluster, c.Slot, c.Epoch, int64(c.After())).Scan(&offsets)
	if errors.Is(err, sql.ErrNoRows) {
		return notOwned(t.ctx, t, t.cluster, c.Slot, c.Epoch)
	}
	if err != nil {
		return err
	}
	return t.note(c, moved, []byte(offsets))
}

func (t *transaction) movePositions(list []change.Position) error {
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
			_, err = t.exec(forget, id)
		} else {
			_, err = t.exec(set, id, p.ResourceVersion, p.Time.UnixMicro(), string(p.Ended))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) delete(s checkpoint.StreamCommit) error {
	return t.each(`delete from inventory where stream = ? and key = ?`, s.Stream, len(s.Deletes), func(i int) []any {
		return []any{s.Deletes[i]}
	})
}

func (t *transaction) upsert(s checkpoint.StreamCommit) error {
	const set = `insert into inventory (stream, key, uid, resource_version, delta) values (?, ?, ?, ?, ?)
		on conflict (stream, key) do update
		set uid = excluded.uid, resource_version = excluded.resource_version, delta = excluded.delta`
	err := t.each(set, s.Stream, len(s.Upserts), func(i int) []any {
		o := &s.Upserts[i]
		return []any{o.Key, o.UID, o.ResourceVersion, delta(o.Body)}
	})
	if err != nil {
		return err
	}
	based := make([]*checkpoint.Object, 0, len(s.Upserts))
	for i := range s.Upserts {
		if o := &s.Upserts[i]; o.Body.Base != nil {
			based = append(based, o)
		}
	}
	return t.each(setBase, s.Stream, len(based), func(i int) []any { return []any{based[i].Key, based[i].Body.Base} })
}

const setBase = `insert into bases select id, ?3 from inventory where stream = ?1 and key = ?2
	on conflict (id) do update set base = excluded.base`

// delta is what the inventory has of a body; null if there is none.
func delta(b checkpoint.Body) any {
	switch {
	case b.IsZero():
		return nil
	case b.Delta == nil:
		return []byte{}
	}
	return b.Delta
}

// each runs one prepared statement n times; its first parameter is the stream.
func (t *transaction) each(query string, stream change.StreamID, n int, args func(i int) []any) error {
	if n == 0 {
		return nil
	}
	id, err := t.stream(stream)
	if err != nil {
		return err
	}
	statement, err := t.PrepareContext(t.ctx, query)
	if err != nil {
		return err
	}
	defer statement.Close()
	row := context.WithoutCancel(t.ctx) // for one that may end, the driver starts a goroutine, a row at a time
	for i := range n {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if _, err := statement.ExecContext(row, append([]any{id}, args(i)...)...); err != nil {
			return err
		}
	}
	return nil
}
