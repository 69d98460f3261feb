package replay

import (
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Target is the destination of a replay. One goroutine uses it.
//
// Invariant: the changes and the control record of one Write are durable together or not at all. So the last control record of a
// replay says which changes the target has.
type Target interface {
	// Open fences an earlier process of the same replay, and visits the control records of replays in order. It returns an error
	// if the place holds anything but replays.
	Open(ctx context.Context, id string, visit func(*change.Control) error) error
	// Write makes changes and a control record durable. After a delete with a value it writes a tombstone.
	Write(ctx context.Context, changes []sinks.Logged, c *change.Control) error
	Close() error
}
