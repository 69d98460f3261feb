package checkpoint

import (
	"context"

	"kubecdc/change"
)

// Topology is the number of slots over which streams are spread. All processes of a cluster agree on it.
type Topology interface {
	// Slots returns the number of slots. The first call records want. If the number is want, the store adopts it: Acquire and
	// Heartbeat then fail with *LayoutError once another process has changed it.
	Slots(ctx context.Context, want int) (have int, err error)
	// Relayout changes the number of slots, and adopts it. The caller must own every slot of the old layout. Relayout fails like
	// Check if a slot has another state than the given one, and with *LayoutError if the number is not From.
	Relayout(ctx context.Context, r Relayout) error
	// RecordSelection replaces the recorded selection of a slot's owner. Streams that were never listed are recorded nowhere
	// else. It fails with ErrFenced like Commit.
	RecordSelection(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error
}

// Relayout is a change of the number of slots.
type Relayout struct {
	From, To int
	Slots    map[int]SlotState // every slot of From, in the state in which the caller owns it
}
