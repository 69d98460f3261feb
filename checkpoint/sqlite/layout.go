package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"kubecdc/checkpoint"
)

const lookLayout = `select slots, split from layouts where cluster = ?`

// Layout gives the layout, which is the one wanted where there was none.
func (s *Store) Layout(ctx context.Context, want checkpoint.Layout) (checkpoint.Layout, error) {
	have, err := s.layoutOr(ctx, want)
	if err != nil {
		return have, s.fail("read the layout", err)
	}
	if have == want {
		s.layout.Store(&want)
	}
	return have, nil
}

func (s *Store) layoutOr(ctx context.Context, want checkpoint.Layout) (have checkpoint.Layout, err error) {
	if err := s.bound(); err != nil {
		return have, err
	}
	const note = `insert into layouts (cluster, slots, split) values (?, ?, ?) on conflict do update set slots = slots returning slots, split`
	err = s.db.QueryRowContext(ctx, note, s.cluster.Load(), want.Slots, want.Split).Scan(&have.Slots, &have.Split)
	return have, err
}

// sameLayout gives *checkpoint.LayoutError when the layout is not the one adopted.
func (s *Store) sameLayout(ctx context.Context) error {
	if err := s.bound(); err != nil {
		return err
	}
	want, have := s.layout.Load(), checkpoint.Layout{}
	if want == nil {
		return nil
	}
	err := s.db.QueryRowContext(ctx, lookLayout, s.cluster.Load()).Scan(&have.Slots, &have.Split)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return s.fail("read the layout", err)
	case have != *want:
		return &checkpoint.LayoutError{Want: *want, Have: have}
	}
	return nil
}
