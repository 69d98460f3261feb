// Package sinks defines what a destination of the log must do. The folders below it are the implementations. All except stdout,
// which can't be read back, pass one contract suite (test/sinktest). Copy postgres for a new one.
package sinks

import (
	"context"
	"math"
	"time"

	"kubecdc/change"
)

// Forever is the retention of a log that drops no change.
const Forever = time.Duration(math.MaxInt64)

// Sink is a destination. It is safe for concurrent use. Each slot opens its own Log.
type Sink interface {
	// Open fences every earlier owner of the slot. It returns the slot's log, ready for writes, with the batches that those
	// owners left there. It returns *OtherClusterError and *NewerEpochError before anything is written.
	Open(ctx context.Context, slot int, epoch int64, from Durable) (*Opened, error)
	// VerifyCluster returns *OtherClusterError if Open would. It writes nothing.
	VerifyCluster(ctx context.Context, slot int, from Durable) error
	// Identity returns the name of the log. Two sinks have the same identity if and only if they write to the same log. A
	// checkpoint belongs to one log only.
	Identity(ctx context.Context) (string, error)
	// Close frees the sink's resources. The caller closes the logs first.
	Close() error

	Health
}

// Health tests whether a sink can be used, without writing a record. A sink without a server embeds NoServer.
type Health interface {
	// Probe returns nil if every known server of the sink has answered. It is cheap, does not retry, and needs only the
	// permissions for writing. It is called every few seconds.
	Probe(ctx context.Context) error
	// Ping returns an error if no server can be reached, or if the login is refused. It does not wait for a server that is down.
	// "exporter check" calls it first.
	Ping(ctx context.Context) error
	// Check tries all that an export of the resources needs, and writes no record. Its error lists all that is wrong.
	Check(ctx context.Context, resources []change.Resource) (Report, error)
}

// Report has the findings of Check that do not prevent an export.
type Report struct {
	How       string // how the sink writes, if its server decides that
	Warnings  []string
	Retention []string // a line for each topic or table with another retention than configured
}

// NoServer is the Health of a sink without a server.
type NoServer struct{}

func (NoServer) Probe(context.Context) error { return nil }
func (NoServer) Ping(context.Context) error  { return nil }
func (NoServer) Check(context.Context, []change.Resource) (r Report, err error) {
	return r, nil
}

// WithSession returns a context for Write that contains the session's context. When the session ends, Write may still finish a
// batch that was begun. It gives up a batch that still waits for something.
func WithSession(ctx, session context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

type sessionKey struct{}

// SessionOf returns the session's context, or ctx itself if it contains none.
func SessionOf(ctx context.Context) context.Context {
	if session, ok := ctx.Value(sessionKey{}).(context.Context); ok {
		return session
	}
	return ctx
}

// Log is where one slot writes, with one epoch. One goroutine uses it.
type Log interface {
	// Write makes the batch durable, all or nothing, and returns the offsets after its records. After any error except a
	// context's the outcome is unknown, and the caller must open the slot again to find out. A *RefusedError names the resources
	// whose records the log refuses. After the write, Write replaces each image in the batch that was too large by the image in
	// the log.
	Write(ctx context.Context, b *change.Batch) (change.Offsets, error)
	// Close ends the log. It writes nothing.
	Close() error
}

// Memory is what a log remembers of itself. A batch moves all of it in one step. It has nothing that a later owner has written.
type Memory interface {
	// Positions returns the positions of all streams that were not forgotten, by name. The position of a stream whose first list
	// has not ended has an empty resourceVersion.
	Positions(ctx context.Context) ([]change.Position, error)
	// Position returns the position of one stream, or false if the log does not know the stream. If the log has objects of the
	// stream and no position, it returns change.UnknownVersion.
	Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error)
	// Objects visits each live object of the stream, in any order. Its version is that of its last change, or of a later update
	// that is not written (change.Batch.Unwritten). visit may call the log.
	Objects(ctx context.Context, stream change.StreamID, visit func(key, uid string, version change.ResourceVersion) error) error
	// Bodies visits the bodies of keys of one stream, in any order. It leaves out keys that do not live in the log, or have no
	// body there. A body is valid until visit returns, which must not call the log.
	Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body []byte) error) error
	// Before sets the before-images of changes that are about to be written, for the first change of each object. These images,
	// and the memory that the function returns, are in use until the next Write or Before. If memory returns less than the
	// requested capacity, a body gets its own memory. The goroutine that writes calls it.
	Before(ctx context.Context, changes []*change.Change, memory func(n int) []byte) error
}
