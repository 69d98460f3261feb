package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// Overview reads what a status shows. It changes nothing and needs no lease.
type Overview interface {
	// Streams is the same as in Reader.
	Streams(ctx context.Context) ([]change.Position, error)
	// SlotOwners returns the owner of each slot of the layout, ordered by slot. It returns none before the first call of Slots.
	SlotOwners(ctx context.Context) ([]SlotOwner, error)
	// LastControls returns the last control record of each stream and type, of those in RetainedControls.
	LastControls(ctx context.Context) ([]change.Control, error)
	// Clock returns the time at the store, whose clock may differ from the reader's.
	Clock(ctx context.Context) (time.Time, error)
	// Signals is the same as in the interface Signals.
	Signals(ctx context.Context, open bool) ([]Signal, error)
}

// SlotOwner is the last owner of a slot, and the slot's last checkpoint.
type SlotOwner struct {
	Slot  int
	Owner string    // empty: the slot never had an owner
	Held  bool      // the lease has not expired (always false if leases are stored elsewhere)
	Until time.Time // when the lease expires, or has expired
	Epoch int64
	Seq   uint64    // the last batch
	Time  time.Time // when the last checkpoint was stored, or zero
	// Selected are the streams that the owner has selected. It is nil if no owner has recorded them (Topology.RecordSelection).
	Selected []change.StreamID
}

// RetainedControls returns the control records that a commit stores. A status shows the last gap and the last proof of each
// stream. The next owner needs the last gap that says that the log has lost records (ControlLost). After a rebuild one may be
// missing.
func RetainedControls(controls []change.Control) (retained []change.Control) {
	for i := range controls {
		c := controls[i]
		if c.Stream == "" || c.Type != change.ControlGap && c.Type != change.ControlProof {
			continue
		}
		retained = append(retained, c)
		if c.Gap != nil && c.Gap.Lost() {
			c.Type = ControlLost
			retained = append(retained, c)
		}
	}
	return retained
}

// ControlLost is the type under which the last gap of a log that has lost records is stored, since later gaps don't replace it.
const ControlLost change.ControlType = "lost"

// Losses returns each stream's last gap that says that the log has lost records.
func Losses(ctx context.Context, store Overview) (map[change.StreamID]*change.Gap, error) {
	controls, err := store.LastControls(ctx)
	lost := map[change.StreamID]*change.Gap{}
	for _, c := range controls {
		if c.Gap != nil && c.Gap.Lost() {
			lost[c.Stream] = c.Gap
		}
	}
	return lost, err
}
