package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
)

// Relayout changes the layout, and adopts it.
func (s *Store) Relayout(ctx context.Context, r checkpoint.Relayout) error {
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		t := &relayout{commit{tx: tx, ctx: ctx, cluster: s.cluster.Load(), ids: map[string]int64{}}}
		if err := s.mayRelayout(ctx, tx, r); err != nil {
			return err
		}
		return t.run(r)
	})
	var other *checkpoint.LayoutError
	switch {
	case errors.Is(err, checkpoint.ErrFenced), errors.As(err, &other):
		return err
	case err != nil:
		return s.fail(fmt.Sprintf("change the layout from %s to %s", r.From, r.To), err)
	}
	s.layout.Store(&r.To)
	return nil
}

// mayRelayout makes sure that the layout is the one to change, and that all its slots are the caller's.
func (s *Store) mayRelayout(ctx context.Context, tx *sql.Tx, r checkpoint.Relayout) error {
	var have checkpoint.Layout
	if err := tx.QueryRowContext(ctx, lookLayout, s.cluster.Load()).Scan(&have.Slots, &have.Split); err != nil {
		return err
	}
	if have != r.From {
		return &checkpoint.LayoutError{Want: r.From, Have: have}
	}
	for slot := range r.From.Slots {
		if err := own(ctx, tx, s.cluster.Load(), slot, r.Slots[slot].Epoch, r.Slots[slot].Seq); err != nil {
			return err
		}
	}
	return nil
}

type relayout struct{ commit }

func (t *relayout) run(r checkpoint.Relayout) error {
	for _, m := range r.Moves {
		if err := t.move(m); err != nil {
			return err
		}
	}
	if err := t.movePositions(r.Positions); err != nil {
		return err
	}
	for _, stream := range r.Ended {
		id, err := t.stream(stream)
		if err == nil {
			_, err = t.tx.ExecContext(t.ctx, `delete from positions where stream = ?`, id)
		}
		if err != nil {
			return err
		}
	}
	_, err := t.tx.ExecContext(t.ctx, `update layouts set slots = ?, split = ? where cluster = ?`, r.To.Slots, r.To.Split, t.cluster)
	return err
}

// move takes the keys that begin with the namespace and a slash: bytewise, 0 comes after that.
func (t *relayout) move(m checkpoint.Move) error {
	from, err := t.stream(m.From)
	if err != nil {
		return err
	}
	to, err := t.stream(m.To)
	if err == nil && m.Anew {
		_, err = t.tx.ExecContext(t.ctx, `delete from inventory where stream = ?`, to)
	}
	if err != nil {
		return err
	}
	const move = `update or replace inventory set stream = ? where stream = ? and key > ? and key < ?`
	_, err = t.tx.ExecContext(t.ctx, move, to, from, m.Namespace+"/", m.Namespace+"0")
	return err
}
