package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/positions"
)

// RaiseEpoch gives the slot a higher epoch.
func (s *Store) RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (raised int64, err error) {
	const raise = `update kubecdc.slots set epoch = greatest(epoch, $4) + 1 where cluster = $1 and slot = $2 and epoch = $3 returning epoch`
	err = s.db.QueryRow(ctx, raise, s.cluster.Load(), slot, epoch, above).Scan(&raised)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.notOwned(ctx, slot, epoch)
	}
	if err != nil {
		return 0, fmt.Errorf("raise the epoch of slot %d above %d: %w", slot, above, err)
	}
	return raised, nil
}

// Clear begins a rebuild.
func (s *Store) Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error {
	op := fmt.Sprintf("forget the streams of slot %d", slot)
	ids, err := s.streamsThat(ctx, mine)
	if err != nil {
		return s.db.Fail(op, err)
	}
	owned := true
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `update kubecdc.slots set pages = 0 where cluster = $1 and slot = $2 and epoch = $3`, s.cluster.Load(), slot, epoch)
		if owned = err != nil || tag.RowsAffected() > 0; err != nil || !owned {
			return err
		}
		_, err = tx.Exec(ctx, `delete from kubecdc.positions where stream = any ($1)`, ids)
		return err
	})
	if err == nil && owned {
		owned, err = s.inSteps(ctx, slot, epoch, ids, `delete from kubecdc.inventory`)
	}
	if err == nil && !owned {
		err = s.notOwned(ctx, slot, epoch)
	}
	return s.db.Fail(op, err)
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

const putPage = `select kubecdc.put_page($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

var pageTypes = []uint32{
	pgtype.Int4OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Int4OID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID,
}

// PutPage sends the page in one statement, as Commit does.
func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	op := fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot)
	answer, err := s.putPage(ctx, slot, epoch, page, streams)
	return s.answered(op, answer, err)
}

func (s *Store) putPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) (answer string, err error) {
	if err := s.bound(); err != nil {
		return "", err
	}
	c := checkpoint.Commit{Slot: slot, Epoch: epoch, Streams: streams}
	ids, err := s.streamIDs(ctx, streamNames(c))
	if err != nil {
		return "", err
	}
	p := commitPool.Get().(*commitParams)
	defer commitPool.Put(p)
	p.fill(s.cluster.Load(), c, ids)
	return s.db.Call(ctx, putPage, p.pageValues(page), pageTypes)
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
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return s.rebuilt(ctx, tx, pages, c, ids) })
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.notOwned(ctx, c.Slot, c.Epoch)
	}
	return s.db.Fail(op, err)
}

// rebuilt gives pgx.ErrNoRows where the slot has not the epoch, or not all pages.
func (s *Store) rebuilt(ctx context.Context, tx pgx.Tx, pages int, c checkpoint.Commit, ids map[change.StreamID]int32) error {
	cluster := s.cluster.Load()
	const move = `update kubecdc.slots set seq = $4, offsets = $5, pages = null where cluster = $1 and slot = $2 and epoch = $3 and pages = $6`
	tag, err := tx.Exec(ctx, move, cluster, c.Slot, c.Epoch, int64(c.Seq), flatten(c.Offsets), pages)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return pgx.ErrNoRows
	}
	const note = `insert into kubecdc.checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
		select $1, $2, greatest(date_trunc('second', now()), max(second)), now(), $3, $4, $5, $6, true
		from kubecdc.checkpoints where cluster = $1 and slot = $2
		on conflict (cluster, slot, second) do update set time = excluded.time, epoch = excluded.epoch, seq = excluded.seq,
		positions = excluded.positions, offsets = excluded.offsets, complete = true`
	if _, err := tx.Exec(ctx, note, cluster, c.Slot, c.Epoch, int64(c.Seq), positions.Encode(c.Positions), flatten(c.Offsets)); err != nil {
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
