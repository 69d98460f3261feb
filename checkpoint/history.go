package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// History gives earlier checkpoints.
type History interface {
	// Select gives the checkpoints of a slot in a window, newest first. The store keeps the last one of each second, so that the
	// history grows with time and not with the load. It keeps what moved in that second: the offsets of all partitions are put
	// together when the history is read, from the rows of an hour at most.
	Select(ctx context.Context, slot int, w Window) ([]Checkpoint, error)
	// Prune drops checkpoints that are older than the age, but never the newest of a slot. The others read as before.
	// Signals that have ended before that are deleted too.
	Prune(ctx context.Context, age time.Duration) error
	// Size is how many bytes the store takes, of all clusters together.
	Size(ctx context.Context) (int64, error)
}

// Past reads the history beside the owners of the slots. It takes no lease and notes nothing, and so needs no right to write.
type Past interface {
	// Find chooses the cluster of all other calls, by name; *UnknownClusterError if the store has no checkpoint of it.
	Find(ctx context.Context, cluster string) error
	// HistorySlots gives the slots that have checkpoints, those of earlier layouts too.
	HistorySlots(ctx context.Context) ([]int, error)
	// Select is History's.
	Select(ctx context.Context, slot int, w Window) ([]Checkpoint, error)
	// PositionsAt gives the position that each stream of a slot had with a batch, as far as the history goes back.
	PositionsAt(ctx context.Context, slot int, seq uint64) ([]change.Position, error)
	Overview
	Close()
}

// Window selects the latest checkpoints of a span of time, by when they were stored. A zero field does not limit.
type Window struct {
	Since, Until time.Time
	Batch        uint64 // the checkpoint that was stored with this batch
	Limit        int
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
