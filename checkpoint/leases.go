package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// Leases are how replicas agree on who owns which slot. Every Store has them.
type Leases interface {
	// Acquire takes the slot and raises its epoch by one, which fences every earlier owner. It fails with *HeldError while
	// another owner's lease has not expired. The same owner name may take its own slot again at once.
	Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (SlotState, error)
	// Renew extends the lease. It fails with ErrFenced if the store has a higher epoch, and with ErrBehind if it has a lower one.
	Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error
	// Release ends the lease at once, so that the next owner need not wait. It fails like Renew.
	Release(ctx context.Context, slot int, epoch int64) error

	// Heartbeat records that the owner lives, for ttl, and returns who else does. With a ttl of 0 it only reads. Then the owner
	// stops being a member, at the latest when its last heartbeat has expired.
	Heartbeat(ctx context.Context, owner string, ttl time.Duration) (Replicas, error)
	// Leave removes the owner's heartbeat at once.
	Leave(ctx context.Context, owner string) error
}

// Replicas are the live owners, and the owners of slots, at one moment.
type Replicas struct {
	Members []string       // live owners, ordered bytewise
	Slots   map[int]string // owners of the slots whose leases have not expired, live or not
}

// SlotState is the state of a slot that a new owner gets.
type SlotState struct {
	Epoch   int64
	Seq     uint64         // the last committed batch, or 0 for a new slot
	Offsets change.Offsets // the offset after that batch in each partition
	New     bool           // nothing was committed yet, or a rebuild has not ended: the store does not know the log's content
}
