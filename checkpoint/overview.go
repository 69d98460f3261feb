package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// Overview reads what a status shows. It changes nothing, and needs no lease.
type Overview interface {
	// Streams is Reader's.
	Streams(ctx context.Context) ([]change.Position, error)
	// SlotOwners gives who owns each slot of the layout, ordered by slot. It is empty before the first Slots.
	SlotOwners(ctx context.Context) ([]SlotOwner, error)
	// LastControls gives the last control record of each stream and type, of those that Commit keeps.
	LastControls(ctx context.Context) ([]change.Control, error)
	// Clock gives the time at the store, whose clock may differ from the reader's.
	Clock(ctx context.Context) (time.Time, error)
	// Signals is Signals'.
	Signals(ctx context.Context, open bool) ([]Signal, error)
}

// SlotOwner is the last owner of a slot, and how far the slot's checkpoint is.
type SlotOwner struct {
	Slot  int
	Owner string    // empty: nobody has ever owned it
	Held  bool      // the lease runs; never, if leases are kept elsewhere
	Until time.Time // when the lease ends, or has ended
	Epoch int64
	Seq   uint64    // the last batch
	Time  time.Time // of the last checkpoint; zero if there is none
	// Selected are the streams that the owner has selected. nil: no owner has recorded them (Topology.RecordSelection).
	Selected []change.StreamID
}

// KeptControls returns the control records that a commit keeps: the last gap and the last proof of each stream. They are for a
// status alone, and nothing depends on them: after a crash, or a rebuild, one may be missing.
func KeptControls(controls []change.Control) (kept []change.Control) {
	for i := range controls {
		if c := &controls[i]; c.Stream != "" && (c.Type == change.ControlGap || c.Type == change.ControlProof) {
			kept = append(kept, *c)
		}
	}
	return kept
}
