package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// History is the checkpoints that were.
type History interface {
	// History gives the latest checkpoints of a slot, newest first. It keeps the last one of each second, so that
	// it grows by the hour and not by the load. What is kept of a second is what moved in it: the offsets of a checkpoint
	// are put together when it is read, from at most an hour's.
	History(ctx context.Context, slot, limit int) ([]Checkpoint, error)
	// Prune forgets history older than the age, always keeping the newest of each slot. What it keeps reads as before.
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
