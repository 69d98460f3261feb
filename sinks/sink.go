// Package sinks defines what a destination of the log must be able to do. The folders below it hold the implementations. Those
// that can be read back pass one contract suite (test/sinktest); postgres is the one to copy. stdout can't be read back.
package sinks

import (
	"context"
	"math"
	"time"

	"kubecdc/change"
)

// Forever is the retention of a log that drops no change.
const Forever = time.Duration(math.MaxInt64)

// Sink is a destination. It is safe for concurrent use; each slot opens a Log of its own.
type Sink interface {
	// Open fences every earlier owner of the slot, and returns its log, ready for writes, with the batches that those owners
	// left there. *OtherClusterError and *NewerEpochError are returned before anything is written.
	Open(ctx context.Context, slot int, epoch int64, from Durable) (*Opened, error)
	// VerifyCluster returns *OtherClusterError where Open would. It writes nothing.
	VerifyCluster(ctx context.Context, slot int, from Durable) error
	// Identity names the log: sinks have the same identity if and only if they write to the same log. A checkpoint belongs
	// to one log only.
	Identity(ctx context.Context) (string, error)
	// Close frees the sink's resources. The caller closes the logs first.
	Close() error

	Health
}

// Health tests whether a sink can be used, without writing a record. A sink without a server embeds NoServer.
type Health interface {
	// Probe returns nil when every known server of the sink has answered. It is cheap, does not retry, and needs no
	// permission beyond those for writing. It is called every few seconds.
	Probe(ctx context.Context) error
	// Ping returns an error if no server can be reached or the login is refused. It does not wait for a server that is down.
	// "exporter check" calls it first.
	Ping(ctx context.Context) error
	// Check tries everything that an export of the resources needs, and writes no record. The error lists all that is wrong.
	Check(ctx context.Context, resources []change.Resource) (Report, error)
}

// Report has the findings of Check that do not prevent an export.
type Report struct {
	How       string // the sink writes, as far as its server decides; may be empty
	Warnings  []string
	Retention []string // a line for each topic or table that keeps changes for longer or shorter than configured
}

// NoServer is the Health of a sink that writes to no server.
type NoServer struct{}

func (NoServer) Probe(context.Context) error { return nil }
func (NoServer) Ping(context.Context) error  { return nil }
func (NoServer) Check(context.Context, []change.Resource) (r Report, err error) {
	return r, nil
}

// WithSession returns a context for Write that knows the session's. When that one ends, a batch that was begun may still be
// finished; a batch that waits for something before it begins is given up.
func WithSession(ctx, session context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

type sessionKey struct{}

// SessionOf returns the session's context; without one, the context itself.
func SessionOf(ctx context.Context) context.Context {
	if session, ok := ctx.Value(sessionKey{}).(context.Context); ok {
		return session
	}
	return ctx
}

// Log is where one slot writes, under one epoch. It is used by one goroutine.
type Log interface {
	// Write makes the batch durable, all or nothing, and returns the offsets after its records.
	// After any error except a context's the outcome is unknown: the caller must open the slot again to find out. A
	// *RefusedError names the resources whose records the log does not accept. In a batch that is written, an image that is too large is
	// replaced by what the log has in its place.
	Write(ctx context.Context, b *change.Batch) (change.Offsets, error)
	// Close ends the log. It writes nothing.
	Close() error
}

// Memory is what a log remembers of itself: with a batch all of it moves, in one step. It holds nothing that a later owner has written.
type Memory interface {
	// Positions are those of all streams that were not forgotten, by name. One whose first list has not ended has an empty resourceVersion.
	Positions(ctx context.Context) ([]change.Position, error)
	// Position is that of one stream; false: the log does not know the stream. If it has objects of it and no position, that is
	// change.UnknownVersion.
	Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error)
	// Objects calls visit with each object of the stream that lives, in any order, in the version of its last change, or of
	// an update since that is not written (change.Batch.Unwritten). visit may call the log.
	Objects(ctx context.Context, stream change.StreamID, visit func(key, uid string, version change.ResourceVersion) error) error
	// Bodies calls visit with the bodies of keys of one stream, in any order. A key that does not live in the log, or has no body there, is
	// left out. A body is valid until visit returns, which must not call the log.
	Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body []byte) error) error
	// Before sets the state before of changes that are about to be written, of each object the first. Both it and what memory gives are
	// in use until the next Write or Before. memory is asked for memory of a capacity; if it gives less, a body gets memory of its own.
	// It is called by the goroutine that writes.
	Before(ctx context.Context, changes []*change.Change, memory func(n int) []byte) error
}
