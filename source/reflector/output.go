package reflector

import (
	"context"
	"time"

	"kubecdc/change"
)

// Item is one thing that a stream emits: a change, a control record, or only a new position.
type Item struct {
	Stream  change.StreamID
	Change  *change.Change
	Control *change.Control
	Raw     *change.Malformed
	// Version moves the stream's position: every change up to it has been handed on. Empty: it stays.
	Version change.ResourceVersion
	Time    time.Time
	// Position is the whole position, in the place of Version and Time: the stream ends, or lives again.
	Position *change.Position
}

// Output takes what streams emit. Send blocks while the sink is behind; its error ends the stream. The stream reuses what the
// item points to when Send returns. It does not write to the bytes of images again, so they may be kept.
type Output interface {
	Send(ctx context.Context, item Item) error
}

// Inventory reads what was last emitted from the checkpoint.
type Inventory interface {
	// Position is the stream's last durable position; ok is false for a new stream.
	Position(ctx context.Context, stream change.StreamID) (p change.Position, ok bool, err error)
	// Objects calls visit for every live object.
	Objects(ctx context.Context, stream change.StreamID, visit func(key, uid string, version change.ResourceVersion) error) error
}

// State is what a stream is doing, for people and metrics.
type State string

const (
	StateLoading     State = "loading"     // reading its position and inventory from the checkpoint
	StateListing     State = "listing"     // reading the collection page by page
	StateWatching    State = "watching"    // reading events as they come
	StateCatchingUp  State = "catching-up" // watching, until an inconsistent list is passed
	StateExpired     State = "expired"     // 410: trying other servers, then listing
	StateBackfilling State = "backfilling" // recovering what a watch missed
	StateVerifying   State = "verifying"   // asking whether the server still holds the log's history
	StateWaiting     State = "waiting"     // backing off after an error
	StateUnsupported State = "unsupported" // its API server gives no numeric resourceVersions: it can't be exported
	StateRefused     State = "refused"     // not read, since the sink does not take its records
	StateAbsent      State = "absent"      // the API server does not serve the resource (any more)
)

// ReasonFirstSnapshot is why a stream without a position enters StateListing.
const ReasonFirstSnapshot = "first snapshot"

// RelistReason is why a watch can't resume, and its collection is listed: a label of the metric kubecdc_relists_total.
type RelistReason string

const (
	RelistExpired         RelistReason = "410"                    // the server does not have the position any more
	RelistSilent          RelistReason = "the watch is silent"    // it does not deliver what a list shows
	RelistHistoryWentBack RelistReason = "history went backwards" // etcd was restored from a backup
)

// Observer is told what streams do. Its methods are called from many goroutines and must be quick.
type Observer interface {
	StreamState(stream change.StreamID, state State, reason string, err error)
	ListProgress(stream change.StreamID, done, total int64)
	WatchRestarted(stream change.StreamID)                // a watch ended before its time, and is opened again
	Relisted(stream change.StreamID, reason RelistReason) // a watch can't resume, and its collection is listed
}
