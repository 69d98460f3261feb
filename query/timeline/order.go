package timeline

import (
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Order is the order of a log's batches. Times are no order, since clocks step, and the clocks of two slots differ.
type Order map[sinks.BatchID]int

// ReadOrder reads the order of the batches that were logged since a time, and in the hour before, since clocks step. A zero time
// reads all.
func ReadOrder(ctx context.Context, r sinks.Reader, since time.Time) (Order, error) {
	if !since.IsZero() {
		since = since.Add(-ClockMargin)
	}
	all := Order{}
	err := r.Controls(ctx, since, func(*sinks.Span) bool { return true }, func(c *change.Control) error {
		if c.Type == change.ControlBatch {
			all[sinks.BatchOf(c.Slot, c.Epoch, c.Batch)] = len(all) + 1
		}
		return nil
	})
	return all, err
}

// Place returns the number of a change's batch, or 0 if it is not known.
func (o Order) Place(l *sinks.Logged) int { return o[sinks.BatchOf(l.Slot, l.Epoch, l.Batch)] }
