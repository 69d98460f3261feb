package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
)

const lookSlots = `select slots from kubecdc.layouts where cluster = $1`

// Slots gives the number of slots, and notes the one wanted if there is none.
func (s *Store) Slots(ctx context.Context, want int) (int, error) {
	have, err := s.slotsOr(ctx, want)
	if err != nil {
		return have, s.db.Fail("read the number of slots", err)
	}
	if have == want {
		s.slots.Store(int32(want))
	}
	return have, nil
}

func (s *Store) slotsOr(ctx context.Context, want int) (have int, err error) {
	if err := s.bound(); err != nil {
		return have, err
	}
	const note = `insert into kubecdc.layouts (cluster, slots) values ($1, $2) on conflict do nothing`
	if _, err = s.db.Exec(ctx, note, s.cluster.Load(), want); err == nil {
		err = s.db.QueryRow(ctx, lookSlots, s.cluster.Load()).Scan(&have)
	}
	return have, err
}

// sameLayout gives *checkpoint.LayoutError when the number of slots is not the one adopted.
func (s *Store) sameLayout(ctx context.Context) error {
	want, have := int(s.slots.Load()), 0
	if want == 0 {
		return nil
	}
	err := s.db.QueryRow(ctx, lookSlots, s.cluster.Load()).Scan(&have)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return s.db.Fail("read the number of slots", err)
	case have != want:
		return &checkpoint.LayoutError{Want: want, Have: have}
	}
	return nil
}

// Relayout changes the number of slots, and adopts it.
func (s *Store) Relayout(ctx context.Context, r checkpoint.Relayout) error {
	op := fmt.Sprintf("change the number of slots from %d to %d", r.From, r.To)
	answer, err := s.relayout(ctx, r)
	if err == nil && answer == "layout" {
		have, err := s.slotsOr(ctx, r.To)
		return errors.Join(err, &checkpoint.LayoutError{Want: r.From, Have: have})
	}
	if err := s.answered(op, answer, err); err != nil {
		return err
	}
	s.slots.Store(int32(r.To))
	return nil
}

func (s *Store) relayout(ctx context.Context, r checkpoint.Relayout) (answer string, err error) {
	const change = `select kubecdc.relayout($1, $2, $3, $4, $5, $6)` // see the migrations
	if err := s.bound(); err != nil {
		return "", err
	}
	slots, epochs, seqs := make([]int32, r.From), make([]int64, r.From), make([]int64, r.From)
	for n := range r.From {
		slots[n], epochs[n], seqs[n] = int32(n), r.Slots[n].Epoch, int64(r.Slots[n].Seq)
	}
	err = s.db.QueryRow(ctx, change, s.cluster.Load(), r.From, r.To, slots, epochs, seqs).Scan(&answer)
	return answer, err
}
