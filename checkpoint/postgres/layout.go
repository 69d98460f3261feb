package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
)

// Layout gives the number of slots, which is the one wanted where there was none.
func (s *Store) Layout(ctx context.Context, want int) (int, error) {
	have, err := s.layoutOr(ctx, want)
	if err != nil {
		return 0, s.db.Fail("read the number of slots", err)
	}
	if have == want {
		s.layout.Store(int32(want))
	}
	return have, nil
}

func (s *Store) layoutOr(ctx context.Context, want int) (have int, err error) {
	if err := s.bound(); err != nil {
		return 0, err
	}
	const note = `insert into layouts (cluster, slots) values ($1, $2) on conflict do nothing`
	if _, err = s.db.Exec(ctx, note, s.cluster.Load(), want); err == nil {
		err = s.db.QueryRow(ctx, `select slots from layouts where cluster = $1`, s.cluster.Load()).Scan(&have)
	}
	return have, err
}

// sameLayout gives *checkpoint.LayoutError when the layout is not the one adopted.
func (s *Store) sameLayout(ctx context.Context) error {
	want, have := int(s.layout.Load()), 0
	if want == 0 {
		return nil
	}
	err := s.db.QueryRow(ctx, `select slots from layouts where cluster = $1`, s.cluster.Load()).Scan(&have)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return s.db.Fail("read the number of slots", err)
	case have != want:
		return &checkpoint.LayoutError{Want: want, Have: have}
	}
	return nil
}

// Resize changes the number of slots, and adopts it.
func (s *Store) Resize(ctx context.Context, from, to int, epochs map[int]int64) error {
	slots, expected := make([]int32, from), make([]int64, from)
	for n := range from {
		slots[n], expected[n] = int32(n), epochs[n]
	}
	var answer string
	err := s.db.QueryRow(ctx, `select resize($1, $2, $3, $4, $5)`, s.cluster.Load(), from, to, slots, expected).Scan(&answer)
	switch {
	case err != nil:
		return s.db.Fail(fmt.Sprintf("change the number of slots from %d to %d", from, to), err)
	case answer == "fenced":
		return checkpoint.ErrFenced
	case answer == "layout":
		have, err := s.layoutOr(ctx, to)
		return errors.Join(err, &checkpoint.LayoutError{Want: from, Have: have})
	}
	s.layout.Store(int32(to))
	return nil
}
