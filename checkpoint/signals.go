package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"kubecdc/change"
)

// Signals are requests of users, and of streams, to running exporters. The owner of the slot with a signal's stream does it, and
// answers here.
type Signals interface {
	// AddSignal stores a request (Kind, Stream, Params), and returns its id. Ids grow, and no id is used twice.
	AddSignal(ctx context.Context, s Signal) (id int64, err error)
	// AddSignals stores a request once for each of the streams, all or none. If the first stream has an open signal of the kind,
	// it stores none. It returns the id of the first stream's signal.
	AddSignals(ctx context.Context, s Signal, streams []change.StreamID) (id int64, err error)
	// Signals returns the cluster's signals, ordered by id. With open it returns only those that have not ended.
	Signals(ctx context.Context, open bool) ([]Signal, error)
	// AnswerSignal records the progress of a signal by the owner of a slot. It fails with ErrFenced and ErrBehind like Commit,
	// and with ErrSignalEnded if the signal has ended.
	AnswerSignal(ctx context.Context, slot int, epoch, id int64, a SignalAnswer) error
	// AbortSignal requests that the owner stops. A signal that no owner has begun is aborted at once. It fails with
	// ErrSignalEnded if the signal has ended or does not exist.
	AbortSignal(ctx context.Context, id int64) error
}

// Signal is a request to the owner of a stream's slot, with the answer so far.
type Signal struct {
	ID        int64             `json:"id"`
	Kind      change.SignalKind `json:"kind"`
	Stream    change.StreamID   `json:"stream"`
	Params    json.RawMessage   `json:"params,omitempty"` // depends on the kind
	Requested time.Time         `json:"requested"`
	Abort     bool              `json:"abort,omitempty"` // the owner shall stop
	SignalAnswer
	Answered time.Time `json:"answered"` // time of the last answer
}

// SignalAnswer is the progress of a signal.
type SignalAnswer struct {
	State   change.SignalState `json:"state"`
	LastKey string             `json:"lastKey,omitempty"` // all keys up to it are done and durable
	Done    int64              `json:"done,omitempty"`    // number of objects, of about Total
	Total   int64              `json:"total,omitempty"`
	Reason  string             `json:"reason,omitempty"` // why it failed, or its result
}

// ErrSignalEnded means that there is no signal with the id, or that it has ended and can't be answered any more.
var ErrSignalEnded = errors.New("there is no such signal, or it has ended")
