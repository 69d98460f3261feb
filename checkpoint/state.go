package checkpoint

import (
	"cmp"
	"context"

	"kubecdc/change"
)

// State is what a store keeps of the log.
//
// Invariants:
//  1. Position, inventory, batch number and offsets of a Commit move in one transaction.
//  2. Every Commit says "where epoch = mine": after another owner acquired the slot it fails with ErrFenced, and with
//     ErrBehind where the store has a lower epoch, since a backup was restored.
type State interface {
	Reader
	Epochs
	Rebuilder
	Redactions
	History

	// Commit moves everything at once, or fails and moves nothing. It drops a position that is change.EndedRemoved.
	Commit(ctx context.Context, c Commit) error
	// Forget drops the position and the objects of a stream that has ended; *NotEndedError for any other. ErrFenced as for
	// Commit.
	Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error
}

// Reader reads how far each stream is, and its inventory.
type Reader interface {
	// Position gives a stream's position; ok is false for a stream that was never seen.
	Position(ctx context.Context, stream change.StreamID) (p change.Position, ok bool, err error)
	// Streams gives the positions of all known streams, ordered by name. A stream whose first list was broken off has objects
	// and no position: it is given with an empty resourceVersion.
	Streams(ctx context.Context) ([]change.Position, error)

	// Inventory calls visit for every live object of the stream, without its body, ordered bytewise by key.
	Inventory(ctx context.Context, stream change.StreamID, visit func(Object) error) error
	// Bodies calls visit with the last emitted bodies of keys of one stream, in any order. A key that is unknown, or was stored
	// without a body, is left out. A body is valid until visit returns.
	Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body Body) error) error
}

// Epochs is how an owner checks and raises its epoch.
type Epochs interface {
	// Check fails with ErrFenced when the slot's epoch is higher, and with ErrBehind when the store does not have the
	// epoch or the batch: what was read from it before may then be older than what is in the log.
	Check(ctx context.Context, slot int, epoch int64, seq uint64) error
	// RaiseEpoch gives the slot an epoch above one that the log has seen: the log was written with a checkpoint that is lost, or
	// newer than this one. ErrFenced when the slot's epoch is not the one given.
	RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (int64, error)
}

// Rebuilder fills a checkpoint that is lost, or too old, from the log: Clear, then a number of pages, then Rebuilt. The slot is
// new (SlotState.New) until Rebuilt, so that an owner that is interrupted begins again. All three fail with ErrFenced as Commit
// does.
type Rebuilder interface {
	// Clear drops positions and inventory of those streams of the cluster that mine picks.
	Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error
	// PutPage adds to the inventory, or takes from it. Pages are numbered from 0; ErrBehind when one is missing.
	PutPage(ctx context.Context, slot int, epoch int64, page int, streams []StreamCommit) error
	// Rebuilt ends the rebuild after so many pages. The commit's number need not follow the slot's, and its offsets replace the
	// slot's. ErrBehind when a page is missing.
	Rebuilt(ctx context.Context, pages int, c Commit) error
}

// Object is one live object of the inventory.
type Object struct {
	Key             string // change.ObjectKey
	UID             string
	ResourceVersion change.ResourceVersion
	Body            Body // nil where before-images are off, or the log gives bodies
}

// Commit is one batch, or several that follow each other, as the store keeps them.
type Commit struct {
	Slot      int
	Epoch     int64
	First     uint64 // the first batch, which must follow the slot's last one; ErrBehind if it does not. 0: there is one, Seq
	Seq       uint64 // the last batch
	Positions []change.Position
	Offsets   change.Offsets // merged into the slot's
	Streams   []StreamCommit
	Controls  []change.Control // KeptControls of the batches
}

// After is the batch that the slot must be at.
func (c *Commit) After() uint64 { return cmp.Or(c.First, c.Seq) - 1 }

// StreamCommit is what a commit does to one stream's inventory. A key stands in at most one of the two lists.
type StreamCommit struct {
	Stream  change.StreamID
	Upserts []Object
	Deletes []string
}
