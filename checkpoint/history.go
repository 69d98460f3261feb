package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// History gives earlier checkpoints.
type History interface {
	// History gives the latest checkpoints of a slot, newest first. The store keeps the last one of each second, so that the
	// history grows with time and not with the load. It keeps what moved in that second: the offsets of all partitions are put
	// together when the history is read, from the rows of an hour at most.
	History(ctx context.Context, slot, limit int) ([]Checkpoint, error)
	// Prune drops checkpoints that are older than the age, but never the newest of a slot. The others read as before.
	// Signals that have ended before that are deleted too.
	Prune(ctx context.Context, age time.Duration) error
}

// Checkpoint is one row of the history.
type Checkpoint struct {
	Slot      int
	Epoch     int64
	Seq       uint64
	Time      time.Time
	Positions []change.Position // those that moved since the checkpoint before, by stream
	Offsets   change.Offsets    // of all partitions, after the batch
}
