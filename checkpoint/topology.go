package checkpoint

import (
	"context"

	"kubecdc/change"
)

// Topology is over how many slots the streams are spread. The processes of a cluster agree on it.
type Topology interface {
	// Slots gives over how many slots the streams are spread. The first call notes the number wanted. If that is the number, the
	// store adopts it: Acquire and Heartbeat then fail with *LayoutError once another process has changed it.
	Slots(ctx context.Context, want int) (have int, err error)
	// Relayout changes the number of slots, and adopts it. The caller must own every slot of the old layout: Relayout fails as
	// Check does where a slot has another state than the one given, and with *LayoutError where the number is not From.
	Relayout(ctx context.Context, r Relayout) error
	// RecordSelection stores the streams that the owner of a slot has selected, in place of those before: a stream that was never
	// listed is nowhere else. ErrFenced as for Commit.
	RecordSelection(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error
}

// Relayout is a change of the number of slots.
type Relayout struct {
	From, To int
	Slots    map[int]SlotState // every slot of From, as the caller owns it
}
