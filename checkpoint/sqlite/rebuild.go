package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// RaiseEpoch gives the slot a higher epoch.
func (s *Store) RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (raised int64, err error) {
	const raise = `update slots set epoch = max(epoch, ?4) + 1 where cluster = ?1 and slot = ?2 and epoch = ?3 returning epoch`
	err = s.db.QueryRowContext(ctx, raise, s.cluster.Load(), slot, epoch, above).Scan(&raised)
	if errors.Is(err, sql.ErrNoRows) {
		err = notOwned(ctx, s.db, s.cluster.Load(), slot, epoch)
	}
	return raised, s.fail(fmt.Sprintf("raise the epoch of slot %d above %d", slot, above), err)
}

// Clear begins a rebuild.
func (s *Store) Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error {
	ids, err := s.streamsThat(ctx, mine)
	if err == nil {
		err = s.owned(ctx, slot, epoch, func(t *transaction) error {
			_, err := t.exec(`update slots set pages = 0 where cluster = ? and slot = ?`, t.cluster, slot)
			for _, id := range ids {
				if err == nil {
					_, err = t.exec(`delete from positions where stream = ?`, id)
				}
			}
			return err
		})
	}
	if err == nil {
		err = s.inSteps(ctx, slot, epoch, ids, `delete from inventory`)
	}
	return s.fail(fmt.Sprintf("forget the streams of slot %d", slot), err)
}

func (s *Store) streamsThat(ctx context.Context, mine func(stream change.StreamID) bool) (ids []int64, err error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, `select id, name from streams where cluster = ?`, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var name change.StreamID
		if err := rows.Scan(&id, &name); err != nil {
			return nil, err
		}
		if mine(name) {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

// PutPage is one transaction.
func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	err := s.owned(ctx, slot, epoch, func(t *transaction) error {
		const add = `update slots set pages = pages + 1 where cluster = ? and slot = ? and pages = ?`
		if added, err := t.exec(add, t.cluster, slot, page); err != nil || !added {
			return cmp.Or(err, checkpoint.ErrBehind)
		}
		return t.moveObjects(streams)
	})
	return s.fail(fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot), err)
}

// Rebuilt ends a rebuild.
func (s *Store) Rebuilt(ctx context.Context, pages int, c checkpoint.Commit) error {
	err := s.owned(ctx, c.Slot, c.Epoch, func(t *transaction) error {
		const move = `update slots set seq = ?, offsets = ?, pages = null where cluster = ? and slot = ? and pages = ?`
		offsets, _ := json.Marshal(change.Offsets{}.Merge(c.Offsets)) // strings and numbers only: can't fail
		if moved, err := t.exec(move, int64(c.Seq), string(offsets), t.cluster, c.Slot, pages); err != nil || !moved {
			return cmp.Or(err, checkpoint.ErrBehind)
		}
		if err := t.noteWhole(c, offsets); err != nil {
			return err
		}
		return t.movePositions(c.Positions)
	})
	return s.fail(fmt.Sprintf("end the rebuild of slot %d at batch %d", c.Slot, c.Seq), err)
}
