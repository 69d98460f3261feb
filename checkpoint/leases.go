package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// Leases is where replicas agree on who owns which slot. Every Store has them.
type Leases interface {
	// Acquire takes the slot: its epoch grows by one, so that every earlier owner is fenced. While another
	// owner's lease runs it fails with *HeldError; the same owner name may take its own slot again at once.
	Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (SlotState, error)
	// Renew extends the lease; ErrFenced when the store has a higher epoch, ErrBehind when it has a lower one.
	Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error
	// Release ends the lease at once, so that the next owner need not wait. It fails as Renew does.
	Release(ctx context.Context, slot int, epoch int64) error

	// Heartbeat says that the owner lives, which holds for ttl, and gives who else does. With a ttl of 0 it only looks: the
	// others do not count the owner as a member any more, at the latest when its last heartbeat has run out.
	Heartbeat(ctx context.Context, owner string, ttl time.Duration) (Replicas, error)
	// Leave withdraws the owner's heartbeat at once.
	Leave(ctx context.Context, owner string) error
}

// Replicas says who lives and who owns what, at one moment.
type Replicas struct {
	Members []string       // owners that live, ordered bytewise
	Slots   map[int]string // the owners of the slots whose leases run, living or not
}

// SlotState is what a new owner finds.
type SlotState struct {
	Epoch   int64
	Seq     uint64         // of the last batch committed; 0 for a new slot
	Offsets change.Offsets // where each partition stood after it
	New     bool           // nothing was committed yet, or a rebuild has not ended: the store does not know what the log has
}
