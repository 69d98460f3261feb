package reader

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// controls visits the cluster's committed control records from some offsets on (nil: from the start), up to the end.
func (r *Reader) controls(ctx context.Context, from map[int]int64, visit func(logread.Control) error) error {
	starts, ends, err := r.Client.Bounds(ctx, r.ControlTopic())
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		if err := r.controlReader(p, max(starts[p], from[p]), visit).ReadTo(ctx, ends[p]-1); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) controlReader(partition int, first int64, visit func(logread.Control) error) *consumer.Reader {
	return consumer.New(r.Client, r.Log.Controls(int32(partition), first, nil, visit))
}

// Controls begins at the first record of that time.
func (r *Reader) Controls(ctx context.Context, since time.Time, visit func(*change.Control) error) error {
	from, err := r.since(ctx, since)
	if err != nil {
		return err
	}
	return r.controls(ctx, from, func(c logread.Control) error { return visit(c.Control) })
}

// since gives the offsets of the first control records that were logged at a time or later.
func (r *Reader) since(ctx context.Context, t time.Time) (map[int]int64, error) {
	if t.UnixMilli() <= 0 {
		return nil, nil
	}
	from, err := r.Client.Since(ctx, r.ControlTopic(), t)
	for p, offset := range from {
		if offset < 0 {
			from[p] = math.MaxInt64
		}
	}
	return from, err
}
