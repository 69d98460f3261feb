package replay

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Target is where a replay writes to. It is used by one goroutine.
//
// Invariant: changes and the control record of one Write are durable together or not at all. So the last control record of a
// replay says which changes the target has.
type Target interface {
	// Open fences an earlier process that wrote for the same replay, and visits the control records that replays have left, in
	// their order. It returns an error if the place holds anything but replays.
	Open(ctx context.Context, id string, visit func(*change.Control) error) error
	// Write makes changes and a control record durable. It appends the tombstone to a delete that has a value.
	Write(ctx context.Context, changes []sinks.Logged, c *change.Control) error
	Close() error
}
