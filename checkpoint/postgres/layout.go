package postgres

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
)

func (s *Store) Relayout(ctx context.Context, r checkpoint.Relayout) error {
	op := fmt.Sprintf("change the number of slots from %d to %d", r.From, r.To)
	answer, err := s.relayout(ctx, r)
	if err == nil && answer == "layout" {
		have, err := s.Slots(ctx, r.From)
		return errors.Join(err, &checkpoint.LayoutError{Want: r.From, Have: have})
	}
	if err := s.errorOf(op, answer, err); err != nil {
		return err
	}
	s.Adopt(r.To)
	return nil
}

func (s *Store) relayout(ctx context.Context, r checkpoint.Relayout) (answer string, err error) {
	const change = `select kubecdc.relayout($1, $2, $3, $4, $5, $6)` // see the migrations
	if err := s.Bound(); err != nil {
		return "", err
	}
	slots, epochs, seqs := make([]int32, r.From), make([]int64, r.From), make([]int64, r.From)
	for n := range r.From {
		slots[n], epochs[n], seqs[n] = int32(n), r.Slots[n].Epoch, int64(r.Slots[n].Seq)
	}
	err = s.db.QueryRow(ctx, change, s.Cluster(), r.From, r.To, slots, epochs, seqs).Scan(&answer)
	return answer, err
}
