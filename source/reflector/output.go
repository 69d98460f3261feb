package reflector

import (
	"context"

	"kubecdc/change"
)

// Output takes what streams emit. Send blocks while the sink is behind. An error of Send ends the stream. After Send has returned
// the stream reuses what the item points to, except the bytes of images, which the output may retain.
type Output interface {
	Send(ctx context.Context, item change.Item) error
}

// Inventory reads what was last emitted.
type Inventory interface {
	// Position returns the stream's last durable position. ok is false for a new stream.
	Position(ctx context.Context, stream change.StreamID) (p change.Position, ok bool, err error)
	// Objects calls visit for every live object.
	Objects(ctx context.Context, stream change.StreamID,
		visit func(key, uid string, version change.ResourceVersion) error) error
	// Bodies calls visit with each body that is stored under one of the keys (Options.Stored).
	Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body []byte) error) error
}

// RelistReason is why a watch can't resume, and its collection is listed: a label of the metric kubecdc_relists_total.
type RelistReason string

const (
	RelistExpired         RelistReason = "410"                      // the server does not have the position any more
	RelistEmptyWatch      RelistReason = "the watch is empty"       // it does not deliver what a list shows
	RelistDeletion        RelistReason = "a deletion can't be read" // nobody knows which object was deleted
	RelistHistoryWentBack RelistReason = "history went backwards"   // etcd was restored from a backup
	RelistInterrupted     RelistReason = "a list was interrupted"   // the log has a part of what it showed
)

var RelistReasons = []RelistReason{RelistExpired, RelistEmptyWatch, RelistDeletion, RelistHistoryWentBack, RelistInterrupted}

// Observer receives what streams do. Its methods are called by many goroutines and must be quick.
type Observer interface {
	StreamState(stream change.StreamID, state change.StreamState, err error)
	// ListProgress reports that a list which closes no gap has shown this many objects: 0 when it starts.
	ListProgress(stream change.StreamID, done, total int64)
	// RecoveryProgress: so many of the revisions of a gap are accounted for, after so many requests.
	RecoveryProgress(stream change.StreamID, done, total, requests int)
	WatchRestarted(stream change.StreamID)                // a watch ended before its time, and is opened again
	Relisted(stream change.StreamID, reason RelistReason) // a watch can't resume, and its collection is listed
}
