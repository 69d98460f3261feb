package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/moves"
)

const relayout = `select relayout($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)` // see the migrations

// Relayout changes the layout, and adopts it.
func (s *Store) Relayout(ctx context.Context, r checkpoint.Relayout) error {
	answer, err := s.relayout(ctx, r)
	switch {
	case err != nil:
		return s.db.Fail(fmt.Sprintf("change the layout from %s to %s", r.From, r.To), err)
	case answer == "fenced":
		return checkpoint.ErrFenced
	case answer == "behind":
		return fmt.Errorf("change the layout from %s to %s: %w", r.From, r.To, checkpoint.ErrBehind)
	case answer == "layout":
		have, err := s.layoutOr(ctx, r.To)
		return errors.Join(err, &checkpoint.LayoutError{Want: r.From, Have: have})
	}
	s.layout.Store(&r.To)
	return nil
}

func (s *Store) relayout(ctx context.Context, r checkpoint.Relayout) (answer string, err error) {
	if err := s.bound(); err != nil {
		return "", err
	}
	ids, err := s.streamIDs(ctx, streamsOf(r))
	if err != nil {
		return "", err
	}
	args := []any{s.cluster.Load(), r.From.Slots, r.From.Split, r.To.Slots, r.To.Split}
	args = append(args, slotArrays(r)...)
	args = append(args, moveArrays(r, ids)...)
	args = append(args, positionArrays(r, ids)...)
	err = s.db.QueryRow(ctx, relayout, args...).Scan(&answer)
	return answer, err
}

func streamsOf(r checkpoint.Relayout) []string {
	names := append([]string{}, r.Ended...)
	for _, m := range r.Moves {
		names = append(names, m.From, m.To)
	}
	for _, p := range r.Positions {
		names = append(names, p.Stream)
	}
	return names
}

func slotArrays(r checkpoint.Relayout) []any {
	slots, epochs, seqs := make([]int32, r.From.Slots), make([]int64, r.From.Slots), make([]int64, r.From.Slots)
	for n := range r.From.Slots {
		slots[n], epochs[n], seqs[n] = int32(n), r.Slots[n].Epoch, int64(r.Slots[n].Seq)
	}
	return []any{slots, epochs, seqs}
}

func moveArrays(r checkpoint.Relayout, ids map[string]int32) []any {
	n := len(r.Moves)
	namespaces, from, to, anew := make([]string, n), make([]int32, n), make([]int32, n), make([]bool, n)
	for i, m := range r.Moves {
		namespaces[i], from[i], to[i], anew[i] = m.Namespace, ids[m.From], ids[m.To], m.Anew
	}
	return []any{namespaces, from, to, anew}
}

func positionArrays(r checkpoint.Relayout, ids map[string]int32) []any {
	n := len(r.Positions)
	streams, versions, times, floors := make([]int32, n), make([]string, n), make([]time.Time, n), make([]*string, n)
	for i, p := range r.Positions {
		streams[i], versions[i], times[i], floors[i] = ids[p.Stream], p.ResourceVersion, p.Time, moves.EncodeFloors(p.Floors)
	}
	ended := make([]int32, len(r.Ended))
	for i, stream := range r.Ended {
		ended[i] = ids[stream]
	}
	return []any{streams, versions, times, floors, ended}
}
