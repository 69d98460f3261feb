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
		err = cmp.Or(own(ctx, s.db, s.cluster.Load(), slot, epoch, 0), checkpoint.ErrBehind)
	}
	return raised, s.fail(fmt.Sprintf("raise the epoch of slot %d above %d", slot, above), err)
}

// Clear begins a rebuild.
func (s *Store) Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error {
	op := fmt.Sprintf("forget the streams of slot %d", slot)
	ids, err := s.streamsThat(ctx, mine)
	if err != nil {
		return s.fail(op, err)
	}
	err = s.ownedBy(ctx, op, slot, epoch, func(t *commit) error {
		_, err := t.tx.ExecContext(ctx, `update slots set pages = 0 where cluster = ? and slot = ?`, t.cluster, slot)
		for _, id := range ids {
			if err == nil {
				_, err = t.tx.ExecContext(ctx, `delete from positions where stream = ?`, id)
			}
		}
		return err
	})
	for _, id := range ids {
		if err == nil {
			err = s.forgetObjects(ctx, op, slot, epoch, id)
		}
	}
	return err
}

// forgetObjects empties a stream's inventory, in steps: leases are renewed over the same connection.
func (s *Store) forgetObjects(ctx context.Context, op string, slot int, epoch, stream int64) error {
	const step = `delete from inventory where rowid in (select rowid from inventory where stream = ? limit 5000)`
	for left := true; left; {
		err := s.ownedBy(ctx, op, slot, epoch, func(t *commit) error {
			result, err := t.tx.ExecContext(ctx, step, stream)
			if err == nil {
				n, _ := result.RowsAffected()
				left = n > 0
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ownedBy runs a step in a transaction, while the slot has the epoch.
func (s *Store) ownedBy(ctx context.Context, op string, slot int, epoch int64, do func(*commit) error) error {
	return s.rebuild(ctx, op, func(t *commit) error {
		if err := own(ctx, t.tx, t.cluster, slot, epoch, 0); err != nil {
			return err
		}
		return do(t)
	})
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

// rebuild runs one step of a rebuild in a transaction.
func (s *Store) rebuild(ctx context.Context, op string, do func(*commit) error) error {
	err := s.bound()
	if err == nil {
		err = s.inTx(ctx, func(tx *sql.Tx) error {
			return do(&commit{tx: tx, ctx: ctx, cluster: s.cluster.Load(), ids: map[change.StreamID]int64{}})
		})
	}
	if errors.Is(err, checkpoint.ErrFenced) {
		return err
	}
	return s.fail(op, err)
}

// PutPage is one transaction.
func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	return s.rebuild(ctx, fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot), func(t *commit) error {
		if err := t.page(slot, epoch, page, `pages = pages + 1`); err != nil {
			return err
		}
		return t.moveObjects(streams)
	})
}

// page checks the epoch and how many pages there are, and sets the slot's columns.
func (t *commit) page(slot int, epoch int64, pages int, set string, args ...any) error {
	args = append([]any{t.cluster, slot, epoch, pages}, args...)
	result, err := t.tx.ExecContext(t.ctx, `update slots set `+set+` where cluster = ?1 and slot = ?2 and epoch = ?3 and pages = ?4`, args...)
	if err != nil {
		return err
	}
	if n, _ := result.RowsAffected(); n > 0 {
		return nil
	}
	if err := own(t.ctx, t.tx, t.cluster, slot, epoch, 0); err != nil {
		return err
	}
	return checkpoint.ErrBehind
}

// Rebuilt ends a rebuild.
func (s *Store) Rebuilt(ctx context.Context, pages int, c checkpoint.Commit) error {
	return s.rebuild(ctx, fmt.Sprintf("end the rebuild of slot %d at batch %d", c.Slot, c.Seq), func(t *commit) error {
		offsets, _ := json.Marshal(change.Offsets{}.Merge(c.Offsets)) // strings and numbers only: can't fail
		if err := t.page(c.Slot, c.Epoch, pages, `seq = ?5, offsets = ?6, pages = null`, int64(c.Seq), string(offsets)); err != nil {
			return err
		}
		if err := t.noteWhole(c, offsets); err != nil {
			return err
		}
		return t.movePositions(c.Positions)
	})
}
