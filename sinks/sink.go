// Package sinks defines what a destination of the log must be able to do. The folders below it hold the implementations. Those
// that can be read back pass one contract suite (test/sinktest); postgres is the one to copy. stdout can't be read back.
package sinks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"kubecdc/change"
)

// Forever is the retention of a log that drops no change.
const Forever = time.Duration(math.MaxInt64)

// ErrInvalidWriter says that the sink accepts no more writes from this writer of the slot, and the log must be opened again.
// Either a newer owner has opened the log, which only the checkpoint knows (checkpoint.ErrFenced); or the sink has dropped the
// writer, as Kafka does after a transaction timeout.
var ErrInvalidWriter = errors.New("the sink has fenced this writer of the slot")

// NewerEpochError says that the slot's log was already opened with this epoch or a newer one. Either another owner has acquired
// the slot, and then the checkpoint says so; or the epoch comes from a checkpoint that was rebuilt or restored from a backup, and
// must be raised. Nothing was written.
type NewerEpochError struct {
	Slot  int
	Epoch int64 // the newest that the log has seen
}

func (e *NewerEpochError) Error() string {
	return fmt.Sprintf("the log of slot %d was opened with epoch %d already", e.Slot, e.Epoch)
}

// OtherClusterError says that the records under the cluster's name were written for another cluster. Nothing was written.
type OtherClusterError struct {
	Log     string // the log's address, as the user knows it
	Cluster string // the name of both clusters
	Stored  string // the identity of the cluster in the log
	Found   string // the identity of this one
	Setting string // the setting that names the log
}

func (e *OtherClusterError) Error() string {
	const ca = "ca-sha256:"
	if strings.HasPrefix(e.Found, ca) && !strings.HasPrefix(e.Stored, ca) {
		return fmt.Sprintf("%s has the log of the cluster named %q with uid %s, and nobody can tell whether this is it: this API server "+
			"is known by its CA alone (%s), and the checkpoint does not know the uid: grant get on namespace kube-system (again), or, if it "+
			"is another cluster, set KUBECDC_CLUSTER to a name of its own; nothing was written", e.Log, e.Cluster, e.Stored, e.Found)
	}
	return fmt.Sprintf("%s has the log of another cluster named %q, with uid %s, and this API server's is %s: set KUBECDC_CLUSTER "+
		"to a name of its own, or %s to another place; nothing was written", e.Log, e.Cluster, e.Stored, e.Found, e.Setting)
}

// OtherEncodingError says that the log has records of an encoding whose keys differ from those of the configured one. Nothing was
// written.
type OtherEncodingError struct {
	Log     string // the log's address, as the user knows it
	Stored  string
	Found   string // the configured one
	Setting string // the setting that names the log
}

func (e *OtherEncodingError) Error() string {
	return fmt.Sprintf("%s has records of the encoding %s, and KUBECDC_ENCODING is %s, which has other keys: a compacted topic would "+
		"keep objects under their former keys for ever: set KUBECDC_ENCODING=%[2]s, or begin another log: set %[4]s to another place, "+
		"and KUBECDC_CHECKPOINT too; nothing was written", e.Log, e.Stored, e.Found, e.Setting)
}

// MovedError says that an address leads to another server than at the start, which does not have the log. Nothing was written
// there.
type MovedError struct{ Address, Known, Found string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s leads to %s now, and the log is in %s: set the sink back to what it was, or, for a new log, "+
		"KUBECDC_CHECKPOINT to another database or file; nothing was written there", e.Address, e.Found, e.Known)
}

// RefusedError says that the log does not accept the records of some resources, and would accept those of others. As after any
// error the log must be opened again.
type RefusedError struct{ Refusals []Refusal }

// Refusal is one place of the log that refuses records.
type Refusal struct {
	Place string                     // such as a topic
	Of    func(change.Resource) bool // whether a resource's records are refused
	Err   error
	// Again asks whether the log would accept the records now, as far as it can be known without writing them.
	Again func(ctx context.Context) error
}

func (e *RefusedError) Error() string {
	var texts []string
	for _, r := range e.Refusals {
		texts = append(texts, r.Err.Error())
	}
	return strings.Join(texts, "; ")
}

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

// Opened is the log of a slot, as its new owner gets it.
type Opened struct {
	Log Log
	// Last is the number of the last batch that Open has seen; 0: none.
	Last uint64
	// Lost says what the log has lost, as far as Open has read it; nil: nothing.
	Lost *LostTailError
	// Memory: the log remembers what it has, and nothing has to follow it; nil: it does not. Then it has Content and Tail.
	Memory  Memory
	Content Content
	// Tail reads back the batches that earlier owners made durable after the one that the checkpoint knows. It calls visit
	// with each, oldest first, while it reads: memory holds a few MB of them, or one batch that is larger. The caller rolls
	// its checkpoint forward with them and never emits them again. Tail is called at most once, before the first write.
	// A batch is valid until visit returns; an error of visit ends the reading. If the rest of the tail can't be read, Tail
	// returns a *LostTailError after the last complete batch, which replaces Lost.
	Tail func(ctx context.Context, visit func(*Recovered) error) error
	// Passed is how many records, of whichever slot, Open has read after the checkpoint's batch. A batch that is written now spares
	// the next owner from them.
	Passed int64
}

// NoTail is the Tail of a log that has none.
func NoTail(context.Context, func(*Recovered) error) error { return nil }

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
	// *RefusedError names the resources whose records the log does not accept. In the batch an image that is too large is replaced by
	// what the log has in its place.
	Write(ctx context.Context, b *change.Batch) (change.Offsets, error)
	// Close ends the log. It writes nothing.
	Close() error
}

// Content reads back what a log has of streams.
type Content interface {
	// State reads what the log has of some streams, up to the end that Open found. It may have to read much of the log.
	State(ctx context.Context, which Selection) (*State, error)
	// Has reports whether the log may have objects of a stream that live there. It is cheap, and may be called beside all others.
	Has(ctx context.Context, stream *change.Stream) (bool, error)
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

// Durable is what the checkpoint knows of the sink.
type Durable struct {
	Seq     uint64
	Offsets change.Offsets
	// New: the checkpoint is new and does not know what the log has. Tail is empty; see Log.State.
	New bool
}

// Selection chooses what of the log a checkpoint is rebuilt from.
type Selection struct {
	Stream func(id change.StreamID) bool
	Bodies bool // otherwise Fold leaves Change.After empty
}

// State is what a log has of some streams: everything that a checkpoint needs to go on from the end of the log, whichever owners
// wrote it and over however many slots the streams were spread.
type State struct {
	Seq     uint64 // of the slot's last batch; 0: the log has none any more
	Epoch   int64  // of the newest owner before
	Offsets change.Offsets
	// Positions are the newest of each stream. A stream whose first list has not ended has an empty one.
	Positions []change.Position
	Records   int64 // an estimate of how many Fold will read
	// Fold calls visit with changes whose last one for each object is the object's state. A change has the fields that those of
	// Recovered have, and is valid until visit returns. Fold calls progress now and then.
	Fold func(ctx context.Context, visit func(*change.Change) error, progress func(Progress)) (Progress, error)
	// Lost says what the log has lost of these streams; nil: nothing.
	Lost *LostTailError
}

// Progress says how far Fold is.
type Progress struct {
	Records int64 // read, selected or not
	Bytes   int64 // of the selected ones
}

// Recovered is a batch that was read back from the sink. Of its changes only Stream.ID(), Op, Namespace, Name, UID,
// ResourceVersion and After are set (Inferred and Gap too, where the sink has them); Controls are not recovered.
type Recovered struct {
	Batch   change.Batch
	Offsets change.Offsets // as Write returned them, or would have
}

// LostTailError says that the log lacks records which the checkpoint counts on: those after the checkpoint can't be read back,
// or some before it are gone (by retention, or since a topic was deleted or recreated).
type LostTailError struct {
	Reason string
	// TailRead: nothing is missing after the checkpoint. Otherwise the checkpoint of the slot's streams must be rebuilt from
	// the log (Log.State).
	TailRead bool
	// Gone reports whether records of a stream are gone before that, so that what the log still has of it must be compared with a
	// list. nil: none are.
	Gone func(change.StreamID) bool
	// Offsets are the ends of those partitions now, to be checkpointed once the loss is recorded.
	Offsets change.Offsets
}

func (e *LostTailError) Error() string {
	if e.TailRead {
		return "the log has lost what was written before: " + e.Reason
	}
	return "the log after the checkpoint can't be read: " + e.Reason
}

// Join returns both losses; nil: there is none.
func (e *LostTailError) Join(other *LostTailError) *LostTailError {
	switch {
	case other == nil || other.Gone == nil:
		return e
	case e == nil || e.Gone == nil:
		return other
	}
	both := *e
	both.Gone = func(s change.StreamID) bool { return e.Gone(s) || other.Gone(s) }
	both.Offsets = change.Offsets{}.Merge(other.Offsets).Merge(e.Offsets)
	return &both
}
