package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
)

const lookSlots = `select slots from layouts where cluster = ?`

// Slots gives the number of slots, and notes the one wanted if there is none.
func (s *Store) Slots(ctx context.Context, want int) (have int, err error) {
	const note = `insert into layouts (cluster, slots) values (?, ?) on conflict do update set slots = slots returning slots`
	if err = s.bound(); err == nil {
		err = s.db.QueryRowContext(ctx, note, s.cluster.Load(), want).Scan(&have)
	}
	if err != nil {
		return have, s.fail("read the number of slots", err)
	}
	if have == want {
		s.slots.Store(int32(want))
	}
	return have, nil
}

// sameLayout gives *checkpoint.LayoutError when the number of slots is not the one adopted.
func (s *Store) sameLayout(ctx context.Context) error {
	if err := s.bound(); err != nil {
		return err
	}
	want, have := int(s.slots.Load()), 0
	if want == 0 {
		return nil
	}
	err := s.db.QueryRowContext(ctx, lookSlots, s.cluster.Load()).Scan(&have)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return s.fail("read the number of slots", err)
	case have != want:
		return &checkpoint.LayoutError{Want: want, Have: have}
	}
	return nil
}

// Relayout changes the number of slots, and adopts it.
func (s *Store) Relayout(ctx context.Context, r checkpoint.Relayout) error {
	err := s.inTx(ctx, func(t *transaction) error {
		if err := t.mayRelayout(r); err != nil {
			return err
		}
		_, err := t.exec(`update layouts set slots = ? where cluster = ?`, r.To, t.cluster)
		return err
	})
	var other *checkpoint.LayoutError
	switch {
	case errors.As(err, &other):
		return err
	case err != nil:
		return s.fail(fmt.Sprintf("change the number of slots from %d to %d", r.From, r.To), err)
	}
	s.slots.Store(int32(r.To))
	return nil
}

// mayRelayout makes sure that the number is the one to change, and that all slots are the caller's.
func (t *transaction) mayRelayout(r checkpoint.Relayout) error {
	var have int
	if err := t.QueryRowContext(t.ctx, lookSlots, t.cluster).Scan(&have); err != nil {
		return err
	}
	if have != r.From {
		return &checkpoint.LayoutError{Want: r.From, Have: have}
	}
	for slot := range r.From {
		if err := check(t.ctx, t, t.cluster, slot, r.Slots[slot].Epoch, r.Slots[slot].Seq); err != nil {
			return err
		}
	}
	return nil
}
