package checkpoint

import (
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

	// Commit moves everything at once, or fails and moves nothing. A position that is change.EndedRemoved is forgotten.
	Commit(ctx context.Context, c Commit) error
	// Rewrite notes that the log has lost what it held of the streams: their positions become empty, as before the
	// first list, and the resourceVersions of their objects get a minus in front. ErrFenced and ErrBehind as for Commit.
	Rewrite(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error
	// Forget drops the position and the objects of a stream that has ended; *NotEndedError for any other. ErrFenced as for
	// Commit.
	Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error
}

// Reader reads how far each stream is, and its inventory.
type Reader interface {
	// Position gives where a stream stands; ok is false for a stream never seen.
	Position(ctx context.Context, stream change.StreamID) (p change.Position, ok bool, err error)
	// Streams gives the positions of all streams known, by name. One whose first list was broken off has objects, and no
	// position: it is given with an empty resourceVersion.
	Streams(ctx context.Context) ([]change.Position, error)

	// Inventory calls visit for every live object of the stream, without its body, ordered bytewise by key.
	Inventory(ctx context.Context, stream change.StreamID, visit func(Object) error) error
	// Bodies gives the last emitted bodies of the keys of one stream; a key that is unknown, or was stored
	// without a body, is absent.
	Bodies(ctx context.Context, stream change.StreamID, keys []string) (map[string][]byte, error)
}

// Epochs is how an owner asks for its own epoch.
type Epochs interface {
	// Check fails with ErrFenced when the slot's epoch is higher, and with ErrBehind when the store does not have the
	// epoch or the batch: what was read from it before may then be older than what is in the log.
	Check(ctx context.Context, slot int, epoch int64, seq uint64) error
	// RaiseEpoch gives the slot an epoch above another, which the log has seen already: it was written with a checkpoint
	// that is lost, or newer than this one. ErrFenced when the slot's epoch is not the one given.
	RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (int64, error)
}

// Rebuilder fills a checkpoint that is lost, or too old, from the log: Clear, then a number of pages, then Rebuilt. Until that
// the slot stays new (SlotState.New), so that whoever is interrupted begins again. All three fail with ErrFenced as Commit does.
type Rebuilder interface {
	// Clear drops positions and inventory of those streams of the cluster that mine picks.
	Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error
	// PutPage adds to the inventory, or takes from it. Pages are numbered from 0; ErrBehind when one is missing.
	PutPage(ctx context.Context, slot int, epoch int64, page int, streams []StreamCommit) error
	// Rebuilt ends it after so many pages, and puts the slot where the commit says: that needs not follow anything, and its
	// offsets are all that the slot has. ErrBehind when a page is missing.
	Rebuilt(ctx context.Context, pages int, c Commit) error
}

// Object is one live object of the inventory.
type Object struct {
	Key             string // change.ObjectKey
	UID             string
	ResourceVersion change.ResourceVersion
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
	Stream  change.StreamID
	Upserts []Object
	Deletes []string
}
