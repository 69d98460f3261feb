package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/positions"
)

// RaiseEpoch gives the slot a higher epoch.
func (s *Store) RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (raised int64, err error) {
	const raise = `update slots set epoch = greatest(epoch, $4) + 1 where cluster = $1 and slot = $2 and epoch = $3 returning epoch`
	err = s.db.QueryRow(ctx, raise, s.cluster.Load(), slot, epoch, above).Scan(&raised)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, checkpoint.ErrFenced
	}
	return raised, s.db.Fail(fmt.Sprintf("raise the epoch of slot %d above %d", slot, above), err)
}

// Forget begins a rebuild.
func (s *Store) Forget(ctx context.Context, slot int, epoch int64, mine func(stream string) bool) error {
	op := fmt.Sprintf("forget the streams of slot %d", slot)
	ids, err := s.streamsThat(ctx, mine)
	if err != nil {
		return s.db.Fail(op, err)
	}
	return s.owned(ctx, op, func(tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, `update slots set pages = 0 where cluster = $1 and slot = $2 and epoch = $3`, s.cluster.Load(), slot, epoch)
		for _, from := range []string{"positions", "inventory"} {
			if err == nil && tag.RowsAffected() == 1 {
				_, err = tx.Exec(ctx, `delete from `+from+` where stream = any ($1)`, ids)
			}
		}
		return tag.RowsAffected(), err
	})
}

func (s *Store) streamsThat(ctx context.Context, mine func(stream string) bool) (ids []int32, err error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, `select id, name from streams where cluster = $1`, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	var id int32
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		if mine(name) {
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

// owned runs a transaction that begins with an update of the slot; one that finds no such row is fenced.
func (s *Store) owned(ctx context.Context, op string, do func(pgx.Tx) (updated int64, err error)) error {
	fenced := false
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		n, err := do(tx)
		fenced = err == nil && n == 0
		return err
	})
	if err == nil && fenced {
		return checkpoint.ErrFenced
	}
	return s.db.Fail(op, err)
}

const putPage = `select put_page($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

var pageTypes = []uint32{
	pgtype.Int4OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Int4OID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID,
}

// PutPage sends the page in one statement, as Commit does.
func (s *Store) PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error {
	op := fmt.Sprintf("put page %d of a rebuild of slot %d", page, slot)
	answer, err := s.putPage(ctx, slot, epoch, page, streams)
	switch {
	case err != nil:
		return s.db.Fail(op, err)
	case answer == "fenced":
		return checkpoint.ErrFenced
	case answer == "behind":
		return fmt.Errorf("%s: %w", op, checkpoint.ErrBehind)
	}
	return nil
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
	if errors.Is(err, checkpoint.ErrFenced) {
		return checkpoint.ErrFenced
	}
	return s.db.Fail(op, err)
}

func (s *Store) rebuilt(ctx context.Context, tx pgx.Tx, pages int, c checkpoint.Commit, ids map[string]int32) error {
	cluster := s.cluster.Load()
	const move = `update slots set seq = $4, offsets = $5, pages = null where cluster = $1 and slot = $2 and epoch = $3 and pages = $6`
	tag, err := tx.Exec(ctx, move, cluster, c.Slot, c.Epoch, int64(c.Seq), flatten(c.Offsets), pages)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return s.notRebuilt(ctx, tx, c)
	}
	const note = `insert into checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets)
		values ($1, $2, date_trunc('second', now()), now(), $3, $4, $5, $6) on conflict (cluster, slot, second) do update
		set time = excluded.time, epoch = excluded.epoch, seq = excluded.seq, positions = excluded.positions, offsets = excluded.offsets`
	if _, err := tx.Exec(ctx, note, cluster, c.Slot, c.Epoch, int64(c.Seq), positions.Encode(c.Positions), flatten(c.Offsets)); err != nil {
		return err
	}
	const set = `insert into positions (stream, resource_version, time) values ($1, $2, $3)
		on conflict (stream) do update set resource_version = excluded.resource_version, time = excluded.time`
	for _, p := range c.Positions {
		if _, err := tx.Exec(ctx, set, ids[p.Stream], p.ResourceVersion, p.Time); err != nil {
			return err
		}
	}
	return nil
}

// notRebuilt says why the slot did not move.
func (s *Store) notRebuilt(ctx context.Context, tx pgx.Tx, c checkpoint.Commit) error {
	var found bool
	const look = `select exists (select from slots where cluster = $1 and slot = $2 and epoch = $3)`
	if err := tx.QueryRow(ctx, look, s.cluster.Load(), c.Slot, c.Epoch).Scan(&found); err != nil {
		return err
	}
	if found {
		return checkpoint.ErrBehind
	}
	return checkpoint.ErrFenced
}
