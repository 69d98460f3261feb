package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// History reads and prunes earlier checkpoints.
type History interface {
	// Select returns the checkpoints of a slot in a window, newest first. The store retains the last one of each second, so the
	// history grows with time and not with load. A row has what moved in its second. Select joins the offsets of all partitions
	// from the rows of at most an hour.
	Select(ctx context.Context, slot int, w Window) ([]Checkpoint, error)
	// Prune drops checkpoints that are older than the age, except the newest of each slot. Other checkpoints read as before. It
	// also deletes signals that ended before that age.
	Prune(ctx context.Context, age time.Duration) error
	// Size returns how many bytes the store takes, for all clusters.
	Size(ctx context.Context) (int64, error)
}

// Past reads the history while owners of the slots write. It takes no lease and needs no right to write.
type Past interface {
	// Find selects the cluster of all other calls by name. It returns *UnknownClusterError if the store has no checkpoint of it.
	Find(ctx context.Context, cluster string) error
	// HistorySlots returns the slots that have checkpoints, also of earlier layouts.
	HistorySlots(ctx context.Context) ([]int, error)
	// Select is the same as in History.
	Select(ctx context.Context, slot int, w Window) ([]Checkpoint, error)
	// PositionsAt returns the position of each stream of a slot with a batch, as far as the history goes back.
	PositionsAt(ctx context.Context, slot int, seq uint64) ([]change.Position, error)
	Overview
	Close()
}

// Window selects the latest checkpoints that were stored in a span of time. A zero field does not limit.
type Window struct {
	Since, Until time.Time
	Batch        uint64 // only the checkpoint of this batch
	Limit        int
}

// Checkpoint is one row of the history.
type Checkpoint struct {
	Slot      int
	Epoch     int64
	Seq       uint64
	Time      time.Time
	Positions []change.Position // positions that moved since the checkpoint before, by stream
	Offsets   change.Offsets    // offsets of all partitions after the batch
}
