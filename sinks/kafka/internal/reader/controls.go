package reader

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// controls visits the cluster's committed control records from some offsets on (nil: from the start), up to the end. The topic
// has one partition, whose offsets are the order of the log. If somebody has created it with several, only time orders their
// records.
func (r *Reader) controls(ctx context.Context, from map[int]int64, visit func(logread.Control) error) error {
	starts, ends, err := r.Client.Bounds(ctx, r.ControlTopic())
	if err != nil {
		return err
	}
	return r.controlsTo(ctx, starts, from, ends, visit)
}

func (r *Reader) controlsTo(ctx context.Context, starts, from, ends map[int]int64, visit func(logread.Control) error) error {
	var all []*controlPartition
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		c := &controlPartition{end: ends[p], more: true}
		c.reader = r.controlReader(p, max(starts[p], from[p]), func(control logread.Control) error {
			c.ready = append(c.ready, control)
			return nil
		})
		all = append(all, c)
	}
	for {
		var next *controlPartition
		for _, c := range all {
			if err := c.fetch(ctx); err != nil {
				return err
			}
			if len(c.ready) > 0 && (next == nil || c.ready[0].TimeMs < next.ready[0].TimeMs) {
				next = c
			}
		}
		if next == nil {
			return nil
		}
		if err := visit(next.ready[0]); err != nil {
			return err
		}
		next.ready = next.ready[1:]
	}
}

// controlPartition is a partition of the control topic that is read up to its end.
type controlPartition struct {
	reader *consumer.Reader
	end    int64
	more   bool
	ready  []logread.Control // read, but not yet visited
}

// fetch reads more records if none is ready.
func (c *controlPartition) fetch(ctx context.Context) (err error) {
	for len(c.ready) == 0 && c.more && err == nil {
		c.more, err = c.reader.Fetch(ctx, c.end-1)
	}
	return err
}

func (r *Reader) controlReader(partition int, first int64, visit func(logread.Control) error) *consumer.Reader {
	return consumer.New(r.Client, r.Log.Controls(int32(partition), first, nil, visit))
}

// Controls implements sinks.Reader. It visits no spans, since the topic has none.
func (r *Reader) Controls(ctx context.Context, since time.Time, _ func(*sinks.Span) bool,
	visit func(*change.Control) error) error {
	from, err := r.since(ctx, since)
	if err != nil {
		return err
	}
	return r.controls(ctx, from, func(c logread.Control) error { return visit(c.Control) })
}

// since returns the offsets of the first control records that were logged at a time or later.
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
