// Package sinks says what a destination of the log must be able to do. The implementations stand in the folders below it. Those
// that can be read back pass one contract suite (sinktest), of which memory is the smallest that does; stdout can't be.
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

// Forever is how long a log keeps every change that drops none.
const Forever = time.Duration(math.MaxInt64)

// ErrInvalidWriter: the sink takes no more from this writer of the slot. It may have fenced it since a newer owner opened the
// log, which only the checkpoint can tell (checkpoint.ErrFenced); or it has given this one up. The log must be opened anew.
var ErrInvalidWriter = errors.New("the sink has fenced this writer of the slot")

// NewerEpochError: the slot's log was opened with this epoch, or a newer one, already. Either another owner has taken the
// slot over, and then the checkpoint says so; or the checkpoint that gave the epoch is not the one that the log was written
// with, or an older state of it, and has to give a higher one. Nothing was written.
type NewerEpochError struct {
	Slot  int
	Epoch int64 // the newest that the log has seen
}

func (e *NewerEpochError) Error() string {
	return fmt.Sprintf("the log of slot %d was opened with epoch %d already", e.Slot, e.Epoch)
}

// OtherClusterError: what the log has under the cluster's name was written for another cluster. Nothing was written.
type OtherClusterError struct {
	Log     string // where it is
	Cluster string // the name
	Stored  string // the identity of the cluster that the log is of
	Found   string // and of this one
	Setting string // that names the log
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

// RefusedError: the log does not take the records of some resources, and would take those of others. As after any error the
// log must be opened anew.
type RefusedError struct{ Refusals []Refusal }

// Refusal is one of those.
type Refusal struct {
	Place string // in the log, such as a topic
	Of    func(change.Resource) bool
	Err   error
	// Again asks whether the log would take their records now, as far as that can be told without writing them.
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
	// Open fences every earlier owner of the slot, and gives its log, fit to write to, with what those owners left there.
	// Before it writes anything it gives *OtherClusterError or *NewerEpochError, if that is so.
	Open(ctx context.Context, slot int, epoch int64, from Durable) (*Opened, error)
	// Meet gives *OtherClusterError where Open would. It writes nothing.
	Meet(ctx context.Context, slot int, from Durable) error
	// Identity names the log: two sinks that write to the same one have the same identity, and no other has. A
	// checkpoint tells of one log only.
	Identity(ctx context.Context) (string, error)
	// Close frees what the sink holds; logs are closed first.
	Close() error

	Health
}

// Health is how a sink is asked whether it can be worked with, when nothing is to be written. Embed NoServer where there is
// nobody to ask.
type Health interface {
	// Probe gives nil when every server of the sink that is known has answered. It is cheap, does not retry, and needs no
	// right that writing does not need. It is called every few seconds.
	Probe(ctx context.Context) error
	// Ping gives an error where no server can be reached, or the login is refused, and waits for nobody. It is the first that
	// "exporter check" asks for.
	Ping(ctx context.Context) error
	// Check tries all that an export of the resources needs, and writes no record. The error says all that is wrong.
	Check(ctx context.Context, resources []change.Resource) (Report, error)
}

// Report is what Check found that stops nothing.
type Report struct {
	Warnings []string
	Kept     []string // where the log keeps changes for longer or shorter than it was asked to, a line each
}

// NoServer is the Health of a sink that writes to no server.
type NoServer struct{}

func (NoServer) Probe(context.Context) error { return nil }
func (NoServer) Ping(context.Context) error  { return nil }
func (NoServer) Check(context.Context, []change.Resource) (r Report, err error) {
	return r, nil
}

// Opened is the log of a slot that has a new owner.
type Opened struct {
	Log Log
	// Tail reads back what earlier owners made durable after the batch that the checkpoint knows, and hands on one batch
	// after another, oldest first, while it reads: memory holds a few MB of it, or one batch that is larger. The caller rolls
	// its checkpoint forward with them and never emits them again. Tail is called once at most, before the log is written to.
	// A batch is valid until visit returns; an error of visit ends the reading. After the last batch that is whole, a
	// *LostTailError says that the rest can't be read: it then stands in the place of Lost.
	Tail func(ctx context.Context, visit func(*Recovered) error) error
	// Last is the number of the tail's last batch, as far as Open has looked; 0: there is none.
	Last uint64
	// Lost is what the log has lost, as far as Open has looked; nil: nothing.
	Lost *LostTailError
}

// NoTail is the Tail of a log that has none.
func NoTail(context.Context, func(*Recovered) error) error { return nil }

// Log is where one slot writes, under one epoch. It is used by one goroutine.
type Log interface {
	// Write makes the batch durable, all or nothing, and says where its records landed.
	// After any error but a context's the outcome is unknown: the caller must open the slot anew, which tells. A
	// *RefusedError says that it is some resources that the log does not take.
	Write(ctx context.Context, b *change.Batch) (change.Offsets, error)
	// Past finds out what the log has of streams, up to where Open came. It may have to read much.
	Past(ctx context.Context, wanted Wanted) (*Past, error)
	// Close ends the log without writing anything.
	Close() error
}

// Durable is what the checkpoint knows of the sink.
type Durable struct {
	Seq     uint64
	Offsets change.Offsets
	// New: the checkpoint does not know what the log has. Nothing is recovered batch by batch; see Past.
	New bool
}

// Wanted says what of the log a checkpoint is rebuilt from.
type Wanted struct {
	Stream func(id change.StreamID) bool
	Bodies bool // else After of what is folded is empty
}

// Past is what a log has of some streams: all that a checkpoint needs to go on from where the log ends, whoever wrote it,
// and over how many slots the streams were spread.
type Past struct {
	Seq     uint64 // of the slot's last batch; 0: the log has none, or does not tell any more
	Epoch   int64  // of the newest owner before
	Offsets change.Offsets
	// Positions are the newest of each stream. One of a stream whose first list has not ended is empty.
	Positions []change.Position
	Records   int64 // about so many are to be read
	// Fold reads the last state of every live object: creates it, or updates it, or deletes what it told before. Changes are
	// as those of Recovered, valid until visit returns; progress is told now and then.
	Fold func(ctx context.Context, visit func(*change.Change) error, progress func(Folded)) (Folded, error)
	// Lost is what the log has lost of these streams; nil for nothing.
	Lost *LostTailError
}

// Folded says how far Fold is.
type Folded struct {
	Records int64 // read; at the end as many as there are, whether they were wanted or not
	Bytes   int64 // of those that were wanted
}

// Recovered is a batch read back from the sink. Of its changes only Stream.ID(), Op, Namespace, Name, UID, ResourceVersion and
// After are set (Inferred and Gap too, where the sink has them); Controls are not recovered.
type Recovered struct {
	Batch   change.Batch
	Offsets change.Offsets // as Write returned them, or would have
}

// LostTailError: the log is not what the checkpoint thinks it is. What followed the checkpoint can't be read back any
// more, or what stood before it is gone (retention, a topic deleted or made anew).
type LostTailError struct {
	Reason string
	// TailRead: nothing is missing after the checkpoint. Otherwise what the log has of the slot's streams is another state
	// than the checkpoint's, which must be rebuilt (Log.Past).
	TailRead bool
	// Gone says of a resource whether its earlier records are not in the log any more: its streams must be written again
	// from the start. nil: of none. (Asked by resource, since the name of a topic can't be turned back into one.)
	Gone func(change.Resource) bool
	// All: it is so of all resources.
	All bool
	// Offsets is where the partitions of those stand now, to be checkpointed once that is noted.
	Offsets change.Offsets
}

func (e *LostTailError) Error() string {
	if e.TailRead {
		return "the log has lost what was written before: " + e.Reason
	}
	return "the log after the checkpoint can't be read: " + e.Reason
}
