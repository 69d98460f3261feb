package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
)

// Layout gives the number of slots, which is the one wanted where there was none.
func (s *Store) Layout(ctx context.Context, want int) (int, error) {
	have, err := s.layoutOr(ctx, want)
	if err != nil {
		return 0, s.fail("read the number of slots", err)
	}
	if have == want {
		s.layout.Store(int64(want))
	}
	return have, nil
}

func (s *Store) layoutOr(ctx context.Context, want int) (have int, err error) {
	if err := s.bound(); err != nil {
		return 0, err
	}
	const note = `insert into layouts (cluster, slots) values (?, ?) on conflict do update set slots = slots returning slots`
	err = s.db.QueryRowContext(ctx, note, s.cluster.Load(), want).Scan(&have)
	return have, err
}

// sameLayout gives *checkpoint.LayoutError when the layout is not the one adopted.
func (s *Store) sameLayout(ctx context.Context) error {
	if err := s.bound(); err != nil {
		return err
	}
	want, have := int(s.layout.Load()), 0
	if want == 0 {
		return nil
	}
	err := s.db.QueryRowContext(ctx, `select slots from layouts where cluster = ?`, s.cluster.Load()).Scan(&have)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return s.fail("read the number of slots", err)
	case have != want:
		return &checkpoint.LayoutError{Want: want, Have: have}
	}
	return nil
}

// Resize changes the number of slots, and adopts it.
func (s *Store) Resize(ctx context.Context, from, to int, epochs map[int]int64) error {
	err := s.inTx(ctx, func(tx *sql.Tx) error { return s.resize(ctx, tx, from, to, epochs) })
	var other *checkpoint.LayoutError
	switch {
	case errors.Is(err, checkpoint.ErrFenced), errors.As(err, &other):
		return err
	case err != nil:
		return s.fail(fmt.Sprintf("change the number of slots from %d to %d", from, to), err)
	}
	s.layout.Store(int64(to))
	return nil
}

func (s *Store) resize(ctx context.Context, tx *sql.Tx, from, to int, epochs map[int]int64) error {
	have := 0
	if err := tx.QueryRowContext(ctx, `select slots from layouts where cluster = ?`, s.cluster.Load()).Scan(&have); err != nil {
		return err
	}
	if have != from {
		return &checkpoint.LayoutError{Want: from, Have: have}
	}
	for slot := range from {
		if err := s.own(ctx, tx, slot, epochs[slot]); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `update layouts set slots = ? where cluster = ?`, to, s.cluster.Load())
	return err
}

// own gives ErrFenced when the slot has another epoch.
func (s *Store) own(ctx context.Context, tx *sql.Tx, slot int, epoch int64) error {
	var one int
	const look = `select 1 from slots where cluster = ? and slot = ? and epoch = ?`
	err := tx.QueryRowContext(ctx, look, s.cluster.Load(), slot, epoch).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return checkpoint.ErrFenced
	}
	return err
}
