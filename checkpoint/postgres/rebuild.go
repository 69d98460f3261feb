package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/history"
	"kubecdc/internal/pgdb"
)

// RaiseEpoch gives the slot a higher epoch.
func (s *Store) RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (raised int64, err error) {
	const raise = `update kubecdc.slots set epoch = greatest(epoch, $4) + 1
		where cluster = $1 and slot = $2 and epoch = $3 returning epoch`
	err = s.db.QueryRow(ctx, raise, s.cluster.Load(), slot, epoch, above).Scan(&raised)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.notOwned(ctx, slot, epoch)
	}
	return raised, s.db.Fail(fmt.Sprintf("raise the epoch of slot %d above %d", slot, above), err)
}

// Clear begins a rebuild.
func (s *Store) Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error {
	ids, err := s.streamsThat(ctx, mine)
	if err == nil {
		err = s.owned(ctx, slot, epoch, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `update kubecdc.slots set pages = 0 where cluster = $1 and slot = $2`, s.cluster.Load(), slot)
			if err == nil {
				_, err = tx.Exec(ctx, `delete from kubecdc.positions where stream = any ($1)`, ids)
			}
			return err
		})
	}
	if err == nil {
		err = s.inSteps(ctx, slot, epoch, ids, `delete from kubecdc.inventory`)
	}
	return s.db.Fail(fmt.Sprintf("forget the streams of slot %d", slot), err)
}

func (s *Store) streamsThat(ctx context.Context, mine func(stream change.StreamID) bool) (ids []int32, err error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, `select id, name from kubecdc.streams where cluster = $1`, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	var id int32
	var name change.StreamID
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		if mine(name) {
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

// PutPage sends the page in one statement, as Commit does.
func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	op := fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot)
	c := checkpoint.Commit{Slot: slot, Epoch: epoch, Streams: streams}
	answer, err := s.callWithRows(ctx, c, func(r *commitRows) (string, error) {
		return s.db.Call(ctx, "kubecdc.put_page", r.inventory(append(s.owner(slot, epoch), pgdb.Int4("in_page", int32(page))))...)
	})
	return s.answered(op, answer, err)
}

// Rebuilt ends a rebuild.
func (s *Store) Rebuilt(ctx context.Context, pages int, c checkpoint.Commit) error {
	op := fmt.Sprintf("end the rebuild of slot %d at batch %d", c.Slot, c.Seq)
	if err := s.bound(); err != nil {
		return s.db.Fail(op, err)
	}
	ids, err := s.streamIDs(ctx, streamNames(c))
	if err != nil {
		return s.db.Fail(op, err)
	}
	err = s.owned(ctx, c.Slot, c.Epoch, func(tx pgx.Tx) error { return s.rebuilt(ctx, tx, pages, c, ids) })
	return s.db.Fail(op, err)
}

// rebuilt gives checkpoint.ErrBehind where the slot has not all pages.
func (s *Store) rebuilt(ctx context.Context, tx pgx.Tx, pages int, c checkpoint.Commit, ids map[change.StreamID]int32) error {
	cluster := s.cluster.Load()
	const move = `update kubecdc.slots set seq = $3, offsets = $4, pages = null where cluster = $1 and slot = $2 and pages = $5`
	tag, err := tx.Exec(ctx, move, cluster, c.Slot, int64(c.Seq), flatten(c.Offsets), pages)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return checkpoint.ErrBehind
	}
	const note = `insert into kubecdc.checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
		select $1, $2, greatest(date_trunc('second', now()), max(second)), now(), $3, $4, $5, $6, true
		from kubecdc.checkpoints where cluster = $1 and slot = $2
		on conflict (cluster, slot, second) do update set time = excluded.time, epoch = excluded.epoch, seq = excluded.seq,
		positions = excluded.positions, offsets = excluded.offsets, complete = true`
	_, err = tx.Exec(ctx, note, cluster, c.Slot, c.Epoch, int64(c.Seq), history.EncodePositions(c.Positions), flatten(c.Offsets))
	if err != nil {
		return err
	}
	const set = `insert into kubecdc.positions (stream, resource_version, time, ended) values ($1, $2, $3, $4)
		on conflict (stream) do update set resource_version = excluded.resource_version, time = excluded.time, ended = excluded.ended`
	for _, p := range c.Positions {
		if _, err := tx.Exec(ctx, set, ids[p.Stream], p.ResourceVersion, p.Time, p.Ended); err != nil {
			return err
		}
	}
	return nil
}
