// Package checkpoint keeps what the exporter must remember: how far each stream is (positions), what was last
// emitted for each live object (inventory), who owns each slot (epochs), and the history of checkpoints.
// It follows the sink's log and never runs ahead of it. It knows nothing of Kubernetes or Kafka.
package checkpoint

import (
	"context"
	"time"

	"kubecdc/change"
)

// Store is a checkpoint store, bound to one cluster. Implementations are safe for concurrent use.
//
// Invariants:
//  1. Position, inventory, batch number and offsets of a Commit move in one transaction.
//  2. Every Commit says "where epoch = mine": after another owner acquired the slot it fails with ErrFenced, and with
//     ErrBehind where the store has a lower epoch, since a backup was restored.
type Store interface {
	// Bind ties the store to a cluster: the first time it notes the identity that was found; later it refuses another
	// one with *OtherClusterError (Binding.Meet), and notes what it learns. All other calls speak of this cluster.
	Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (Binding, error)

	// BindLog ties the cluster's checkpoint to the log that it tells of, by the name that sinks.Sink.Identity gives:
	// the first time it notes it; later it refuses another one with *OtherLogError.
	BindLog(ctx context.Context, log string) error
	// PinPartitions gives how many partitions of a topic are to be written to: as many as were found the first time,
	// or since it was made anew. That there are more now changes nothing, so that every key stays on its partition.
	PinPartitions(ctx context.Context, topic string, found int, anew bool) (int, error)

	Leases

	// Slots gives over how many slots the streams are spread. The first call ever notes the number wanted. When it is the
	// one wanted, the store adopts it: from then on Acquire and Heartbeat fail with *LayoutError once another process has
	// changed it.
	Slots(ctx context.Context, want int) (have int, err error)
	// Relayout changes the number of slots, and adopts it. The caller must own every slot of the old layout, as Check says
	// of the states given; *LayoutError when the number is another than From.
	Relayout(ctx context.Context, r Relayout) error

	// Position gives where a stream stands; ok is false for a stream never seen.
	Position(ctx context.Context, stream string) (p change.Position, ok bool, err error)
	// Streams gives the positions of all streams known, by name. One whose first list was broken off has objects, and no
	// position: it is given with an empty resourceVersion.
	Streams(ctx context.Context) ([]change.Position, error)

	// Inventory calls visit for every live object of the stream, without its body, ordered bytewise by key.
	Inventory(ctx context.Context, stream string, visit func(Object) error) error
	// Bodies gives the last emitted bodies of the keys of one stream; a key that is unknown, or was stored
	// without a body, is absent.
	Bodies(ctx context.Context, stream string, keys []string) (map[string][]byte, error)

	// Commit moves everything at once, or fails and moves nothing. A position that is change.EndedRemoved is forgotten.
	Commit(ctx context.Context, c Commit) error
	// Check fails with ErrFenced when the slot's epoch is higher, and with ErrBehind when the store does not have the
	// epoch or the batch: what was read from it before may then be older than what is in the log.
	Check(ctx context.Context, slot int, epoch int64, seq uint64) error

	// Rewrite notes that the log has lost what it held of the streams: their positions become empty, as before the
	// first list, and the resourceVersions of their objects get a minus in front. ErrFenced and ErrBehind as for Commit.
	Rewrite(ctx context.Context, slot int, epoch int64, streams []string) error

	Redactions

	// Forget drops the position and the objects of a stream that has ended; *NotEndedError for any other. ErrFenced as for
	// Commit.
	Forget(ctx context.Context, slot int, epoch int64, stream string) error

	// RaiseEpoch gives the slot an epoch above another, which the log has seen already: it was written with a checkpoint
	// that is lost, or newer than this one. ErrFenced when the slot's epoch is not the one given.
	RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (int64, error)

	// A checkpoint that is lost, or too old, is rebuilt from the log: Clear, then a number of pages, then Rebuilt. Until
	// that the slot stays new (SlotState.New), so that whoever is interrupted begins again. All three fail with ErrFenced
	// as Commit does.

	// Clear drops positions and inventory of those streams of the cluster that mine picks.
	Clear(ctx context.Context, slot int, epoch int64, mine func(stream string) bool) error
	// PutPage adds to the inventory, or takes from it. Pages are numbered from 0; ErrBehind when one is missing.
	PutPage(ctx context.Context, slot int, epoch int64, page int, streams []StreamCommit) error
	// Rebuilt ends it after so many pages, and puts the slot where the commit says: that needs not follow anything, and its
	// offsets are all that the slot has. ErrBehind when a page is missing.
	Rebuilt(ctx context.Context, pages int, c Commit) error

	// History gives the latest checkpoints of a slot, newest first. It keeps the last one of each second, so that
	// it grows by the hour and not by the load. What is kept of a second is what moved in it: the offsets of a checkpoint
	// are put together when it is read, from at most an hour's.
	History(ctx context.Context, slot, limit int) ([]Checkpoint, error)
	// Prune forgets history older than the age, always keeping the newest of each slot. What it keeps reads as before.
	Prune(ctx context.Context, age time.Duration) error

	Close()
}

// Relayout is a change of the number of slots.
type Relayout struct {
	From, To int
	Slots    map[int]SlotState // every slot of From, as the caller owns it
}

// SlotState is what a new owner finds.
type SlotState struct {
	Epoch   int64
	Seq     uint64         // of the last batch committed; 0 for a new slot
	Offsets change.Offsets // where each partition stood after it
	New     bool           // nothing was committed yet, nor Rebuilt since the last Forget: what the log has is not known here
}

// Object is one live object of the inventory.
type Object struct {
	Key             string // change.ObjectKey
	UID             string
	ResourceVersion string
	Body            []byte // nil where before-images are off
}

// Commit is one batch, as the store keeps it.
type Commit struct {
	Slot      int
	Epoch     int64
	Seq       uint64 // must follow the slot's; ErrBehind if it does not
	Positions []change.Position
	Offsets   change.Offsets // merged into the slot's
	Streams   []StreamCommit
}

// StreamCommit is what a batch does to one stream's inventory. A key stands in at most one of the two lists.
type StreamCommit struct {
	Stream  string
	Upserts []Object
	Deletes []string
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
