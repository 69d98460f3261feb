package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
)

// Commit makes one transaction. It moves the slot first. The move fails with checkpoint.ErrFenced if the slot has a newer owner,
// and with checkpoint.ErrBehind if the store is not at the previous batch.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	err := s.InTx(ctx, func(t *tables.Tx) error {
		if err := moveSlot(t, c); err != nil {
			return err
		}
		if err := t.Move(c.Positions); err != nil {
			return err
		}
		if err := t.KeepControls(c.Controls); err != nil {
			return err
		}
		return moveObjects(t, c.Streams)
	})
	return s.file.Fail(fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot), err)
}

// moveSlot checks the epoch, moves the slot to the batch, and adds the batch to the history.
func moveSlot(t *tables.Tx, c checkpoint.Commit) error {
	const move = `update slots set seq = $1, offsets = json_patch(offsets, $2), pages = null
		where cluster = $3 and slot = $4 and epoch = $5 and seq = $6 returning offsets`
	moved, after := dialect.Offsets(c.Offsets), []byte(nil)
	err := t.Row(t.Ctx, move, []any{int64(c.Seq), moved, t.Cluster, c.Slot, c.Epoch, int64(c.After())}, &after)
	if errors.Is(err, sql.ErrNoRows) {
		return tables.NotOwned(t.Ctx, t, t.Cluster, c.Slot, c.Epoch)
	}
	if err != nil {
		return err
	}
	return addHistory(t, c, moved, after)
}

// addHistory adds what moved to this second's row of the history, or to a new row. The first row of an hour is complete.
// json_patch would drop nulls, which neither positions nor offsets have.
func addHistory(t *tables.Tx, c checkpoint.Commit, moved, after json.RawMessage) error {
	const last = `select coalesce(max(second), 0) from checkpoints where cluster = $1 and slot = $2`
	const add = `insert into checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (cluster, slot, second) do update
		set time = excluded.time, epoch = excluded.epoch, seq = excluded.seq,
			positions = json_patch(positions, excluded.positions), offsets = json_patch(offsets, excluded.offsets)`
	now := time.Now()
	var second int64
	if err := t.Row(t.Ctx, last, []any{t.Cluster, c.Slot}, &second); err != nil {
		return err
	}
	firstOfHour := second/3600 < now.Unix()/3600
	if firstOfHour {
		moved = after
	}
	_, err := t.Do(add, t.Cluster, c.Slot, max(second, now.Unix()), now, c.Epoch, int64(c.Seq),
		tables.EncodePositions(c.Positions), moved, firstOfHour)
	return err
}

func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	err := s.Owned(ctx, slot, epoch, func(t *tables.Tx) error {
		const add = `update slots set pages = pages + 1 where cluster = $1 and slot = $2 and pages = $3`
		if added, err := t.Do(add, t.Cluster, slot, page); err != nil || !added {
			return cmp.Or(err, checkpoint.ErrBehind)
		}
		return moveObjects(t, streams)
	})
	return s.file.Fail(fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot), err)
}

func moveObjects(t *tables.Tx, streams []checkpoint.StreamCommit) error {
	for _, s := range streams {
		if err := remove(t, s); err != nil {
			return err
		}
		if err := upsert(t, s); err != nil {
			return err
		}
	}
	return nil
}

func remove(t *tables.Tx, s checkpoint.StreamCommit) error {
	return each(t, `delete from inventory where stream = ? and key = ?`, s.Stream, len(s.Deletes), func(i int) []any {
		return []any{s.Deletes[i]}
	})
}

func upsert(t *tables.Tx, s checkpoint.StreamCommit) error {
	const set = `insert into inventory (stream, key, uid, resource_version, delta) values (?, ?, ?, ?, ?)
		on conflict (stream, key) do update
		set uid = excluded.uid, resource_version = excluded.resource_version, delta = excluded.delta`
	slices.SortFunc(s.Upserts, func(a, b checkpoint.Object) int { return strings.Compare(a.Key, b.Key) })
	err := each(t, set, s.Stream, len(s.Upserts), func(i int) []any {
		o := &s.Upserts[i]
		return []any{o.Key, o.UID, o.ResourceVersion, delta(o.Body)}
	})
	if err != nil {
		return err
	}
	var based, bare []*checkpoint.Object
	for i := range s.Upserts {
		switch o := &s.Upserts[i]; {
		case o.Body.Base != nil:
			based = append(based, o)
		case o.Body.IsZero():
			bare = append(bare, o)
		}
	}
	if err := forgetBases(t, s.Stream, bare); err != nil {
		return err
	}
	return each(t, setBase, s.Stream, len(based), func(i int) []any { return []any{based[i].Key, based[i].Body.Base} })
}

// The row's id is a value here. With "insert … select", SQLite copies each page before it changes it.
const setBase = `insert into bases values ((select id from inventory where stream = ?1 and key = ?2), ?3)
	on conflict (id) do update set base = excluded.base`

const forgetBase = `delete from bases where id = (select id from inventory where stream = ?1 and key = ?2)`

// forgetBases deletes the bases of objects that have no body now. With before=none there are none.
func forgetBases(t *tables.Tx, stream change.StreamID, bare []*checkpoint.Object) error {
	if len(bare) == 0 {
		return nil
	}
	var some bool
	if err := t.Row(t.Ctx, `select exists (select 1 from bases)`, nil, &some); err != nil || !some {
		return err
	}
	return each(t, forgetBase, stream, len(bare), func(i int) []any { return []any{bare[i].Key} })
}

// delta returns the value of the column for a body's delta, or nil if there is none.
func delta(b checkpoint.Body) any {
	switch {
	case b.IsZero():
		return nil
	case b.Delta == nil:
		return []byte{}
	}
	return b.Delta
}

// each runs one prepared statement n times. Its first parameter is the stream.
func each(t *tables.Tx, query string, stream change.StreamID, n int, args func(i int) []any) error {
	if n == 0 {
		return nil
	}
	id, err := t.Stream(stream)
	if err != nil {
		return err
	}
	statement, err := t.Querier.(querier).db.(*sql.Tx).PrepareContext(t.Ctx, query)
	if err != nil {
		return err
	}
	defer statement.Close()
	row := context.WithoutCancel(t.Ctx) // for a context that can end, the driver starts a goroutine for each row
	for i := range n {
		if err := t.Ctx.Err(); err != nil {
			return err
		}
		if _, err := statement.ExecContext(row, append([]any{id}, args(i)...)...); err != nil {
			return err
		}
	}
	return nil
}
