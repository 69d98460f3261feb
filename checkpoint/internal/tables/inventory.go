package tables

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// pageSize is how many objects Inventory holds at a time. Each takes about 150 bytes.
const pageSize = 5000

// Inventory reads page by page. It holds no connection and no snapshot while it visits. So the visitor may take as long as a list
// from the API server, and may commit meanwhile.
func (s *Store) Inventory(ctx context.Context, stream change.StreamID, visit func(checkpoint.Object) error) error {
	page := make([]checkpoint.Object, 0, 100)
	var o checkpoint.Object
	for after := ""; ; after = page[len(page)-1].Key { // no key is empty, so every key comes after ""
		page = page[:0]
		err := s.rows(ctx, s.Dialect.Inventory, []any{s.Cluster(), stream, after, pageSize},
			[]any{&o.Key, &o.UID, &o.ResourceVersion}, func() error {
				page = append(page, o)
				return nil
			})
		if err != nil {
			return s.db.Fail("read the inventory of stream "+string(stream), err)
		}
		for _, o := range page {
			if err := visit(o); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

func (s *Store) Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error {
	err := s.Owned(ctx, slot, epoch, func(t *Tx) error {
		const end = `delete from kubecdc.positions where ended <> ''
			and stream = (select id from kubecdc.streams where cluster = $1 and name = $2) returning stream`
		var id int64
		if err := t.Row(ctx, end, []any{t.Cluster, stream}, &id); err != nil {
			return err
		}
		_, err := t.Do(`delete from kubecdc.inventory where stream = $1`, id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return &checkpoint.NotEndedError{Stream: stream}
	}
	return s.db.Fail("forget stream "+string(stream), err)
}

func (s *Store) Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error {
	ids, err := s.streamsThat(ctx, mine)
	if err == nil {
		err = s.Owned(ctx, slot, epoch, func(t *Tx) error {
			if _, err := t.Do(`update kubecdc.slots set pages = 0 where cluster = $1 and slot = $2`, t.Cluster,
				slot); err != nil {
				return err
			}
			for _, id := range ids {
				if _, err := t.Do(`delete from kubecdc.positions where stream = $1`, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, id := range ids {
		for after, more := "", true; more && err == nil; {
			err = s.Owned(ctx, slot, epoch, func(t *Tx) (err error) {
				after, more, err = s.clearPage(t, id, after)
				return err
			})
		}
	}
	return s.db.Fail(fmt.Sprintf("forget the streams of slot %d", slot), err)
}

func (s *Store) streamsThat(ctx context.Context, mine func(stream change.StreamID) bool) (ids []int64, err error) {
	var id int64
	var name change.StreamID
	err = s.rows(ctx, `select id, name from kubecdc.streams where cluster = $1`, []any{s.Cluster()}, []any{&id, &name},
		func() error {
			if mine(name) {
				ids = append(ids, id)
			}
			return nil
		})
	return ids, err
}

// clearedRows is how many rows of the inventory one transaction deletes. The slot's lease can't be renewed meanwhile. If the
// process is killed between two transactions, the next owner begins again.
const clearedRows = 5000

// clearPage deletes the rows that follow a key. It returns the last deleted key, and whether there are more.
func (s *Store) clearPage(t *Tx, stream int64, after string) (last string, more bool, err error) {
	if s.ByKey != "" {
		if _, err := t.Do(s.ByKey); err != nil {
			return "", false, err
		}
	}
	const query = `select key from kubecdc.inventory where stream = $1 and key > $2 order by key limit 1 offset $3`
	err = t.Row(t.Ctx, query, []any{stream, after, clearedRows - 1}, &last)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = t.Do(`delete from kubecdc.inventory where stream = $1 and key > $2`, stream, after)
		return "", false, err
	}
	if err == nil {
		_, err = t.Do(`delete from kubecdc.inventory where stream = $1 and key > $2 and key <= $3`, stream, after, last)
	}
	return last, true, err
}

func (s *Store) Rebuilt(ctx context.Context, pages int, c checkpoint.Commit) error {
	err := s.Owned(ctx, c.Slot, c.Epoch, func(t *Tx) error {
		const move = `update kubecdc.slots set seq = $3, offsets = $4, pages = null where cluster = $1 and slot = $2 and pages = $5`
		record := `insert into kubecdc.checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
			select $1, $2, case when max(second) > ` + s.Second + ` then max(second) else ` + s.Second + ` end, clock_timestamp(),
				$3, $4, $5, $6, true from kubecdc.checkpoints where cluster = $1 and slot = $2
			on conflict (cluster, slot, second) do update set time = excluded.time, epoch = excluded.epoch, seq = excluded.seq,
			positions = excluded.positions, offsets = excluded.offsets, complete = true`
		offsets := s.Offsets(c.Offsets)
		if moved, err := t.Do(move, t.Cluster, c.Slot, int64(c.Seq), offsets, pages); err != nil || !moved {
			return cmp.Or(err, checkpoint.ErrBehind)
		}
		if _, err := t.Do(record, t.Cluster, c.Slot, c.Epoch, int64(c.Seq), EncodePositions(c.Positions), offsets); err != nil {
			return err
		}
		return t.Move(c.Positions)
	})
	return s.db.Fail(fmt.Sprintf("end the rebuild of slot %d at batch %d", c.Slot, c.Seq), err)
}
