package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"kubecdc/change"
)

// Signals are what users, and streams, ask of running exporters. The owner of the slot that a signal's stream is in does it, and
// answers here.
type Signals interface {
	// AddSignal stores a request (Kind, Stream, Params), and gives its id. Ids grow, and no id is given twice.
	AddSignal(ctx context.Context, s Signal) (id int64, err error)
	// AddSignals stores a request once for each of the streams, all or none. If the first one has an open signal of the kind, it
	// stores none. It gives the id of the first one's signal.
	AddSignals(ctx context.Context, s Signal, streams []change.StreamID) (id int64, err error)
	// Signals gives the cluster's signals, ordered by id; with open only those that have not ended.
	Signals(ctx context.Context, open bool) ([]Signal, error)
	// AnswerSignal notes how far the owner of a slot is with a signal. ErrFenced and ErrBehind as for Commit; ErrSignalEnded if
	// the signal has ended.
	AnswerSignal(ctx context.Context, slot int, epoch, id int64, a SignalAnswer) error
	// AbortSignal asks the owner to stop. A signal that no owner has begun is aborted at once. ErrSignalEnded if the signal has
	// ended, or there is none.
	AbortSignal(ctx context.Context, id int64) error
}

// Signal is a request to the owner of a stream's slot, with the answer so far.
type Signal struct {
	ID        int64             `json:"id"`
	Kind      change.SignalKind `json:"kind"`
	Stream    change.StreamID   `json:"stream"`
	Params    json.RawMessage   `json:"params,omitempty"` // depend on the kind
	Requested time.Time         `json:"requested"`
	Abort     bool              `json:"abort,omitempty"` // the owner is to stop
	SignalAnswer
	Answered time.Time `json:"answered"` // the last time
}

// SignalAnswer is how far a signal is.
type SignalAnswer struct {
	State   change.SignalState `json:"state"`
	LastKey string             `json:"lastKey,omitempty"` // everything up to it is done and durable
	Done    int64              `json:"done,omitempty"`    // objects, of about Total
	Total   int64              `json:"total,omitempty"`
	Reason  string             `json:"reason,omitempty"` // why it failed, or what came of it
}

// ErrSignalEnded means that there is no signal of the id, or that it has ended: nothing more can be said of it.
var ErrSignalEnded = errors.New("there is no such signal, or it has ended")
