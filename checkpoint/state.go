package checkpoint

import (
	"cmp"
	"context"

	"kubecdc/change"
)

// State is what a store remembers of the log.
//
// Invariants:
//  1. Position, inventory, batch number and offsets of a Commit move in one transaction.
//  2. Every Commit says "where epoch = mine". After another owner has acquired the slot it fails with ErrFenced. If the store
//     has a lower epoch, since a backup was restored, it fails with ErrBehind.
type State interface {
	Reader
	Epochs
	Rebuilder
	Redactions
	History

	// Commit moves everything at once, or fails and moves nothing. It drops positions with change.EndedRemoved.
	Commit(ctx context.Context, c Commit) error
	// Forget drops the position and the objects of a stream that has ended. It fails with *NotEndedError for other streams, and
	// with ErrFenced like Commit.
	Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error
}

// Reader reads positions and inventories.
type Reader interface {
	// Position returns a stream's position. It returns false for an unknown stream.
	Position(ctx context.Context, stream change.StreamID) (p change.Position, ok bool, err error)
	// Streams returns the positions of all known streams, ordered by name. A stream whose first list was interrupted has objects
	// but no position: its resourceVersion is empty.
	Streams(ctx context.Context) ([]change.Position, error)

	// Inventory visits every live object of the stream without its body, ordered bytewise by key.
	Inventory(ctx context.Context, stream change.StreamID, visit func(Object) error) error
	// Bodies visits the last emitted bodies of keys of one stream, in any order. It leaves out keys that are unknown or were
	// stored without a body. A body is valid until visit returns.
	Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body Body) error) error
}

// Epochs is how an owner checks and raises its epoch.
type Epochs interface {
	// Check fails with ErrFenced if the store has a higher epoch of the slot. It fails with ErrBehind if the store has a lower
	// epoch, or is not yet at batch seq. What was read from the store may then be older than the log.
	Check(ctx context.Context, slot int, epoch int64, seq uint64) error
	// RaiseEpoch raises the slot's epoch above an epoch that was found in the log, and returns the new one. The log has a
	// higher epoch than the store if its writer's checkpoint is lost, or was newer than this one. RaiseEpoch fails like Check
	// if the slot's epoch is not epoch.
	RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (int64, error)
}

// Rebuilder fills a lost or outdated checkpoint from the log: Clear, then pages, then Rebuilt. The slot is new (SlotState.New)
// until Rebuilt, so an interrupted owner begins again. All three fail with ErrFenced like Commit.
type Rebuilder interface {
	// Clear drops positions and inventory of the cluster's streams that mine selects.
	Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error
	// PutPage changes the inventory. Pages are numbered from 0. It fails with ErrBehind if one is missing.
	PutPage(ctx context.Context, slot int, epoch int64, page int, streams []StreamCommit) error
	// Rebuilt ends the rebuild after a number of pages. The commit's number need not follow the slot's, and its offsets replace
	// the slot's. It fails with ErrBehind if a page is missing.
	Rebuilt(ctx context.Context, pages int, c Commit) error
}

// Object is one live object of the inventory.
type Object struct {
	Key             string // change.ObjectKey
	UID             string
	ResourceVersion change.ResourceVersion
	Body            Body // nil if before-images are off, or if the log has the bodies
}

// Commit is one batch, or several that follow each other.
type Commit struct {
	Slot      int
	Epoch     int64
	First     uint64 // the first batch, which must follow the slot's last one, else ErrBehind. 0: there is one batch, Seq
	Seq       uint64 // the last batch
	Positions []change.Position
	Offsets   change.Offsets // merged into the slot's offsets
	Streams   []StreamCommit
	Controls  []change.Control // RetainedControls of the batches
}

// After returns the batch at which the slot must be.
func (c *Commit) After() uint64 { return cmp.Or(c.First, c.Seq) - 1 }

// StreamCommit is the change of one stream's inventory. A key is in at most one of the two lists.
type StreamCommit struct {
	Stream  change.StreamID
	Upserts []Object
	Deletes []string
}
