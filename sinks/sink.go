// Package sinks says what a destination of the log must be able to do. The implementations stand in the folders
// below it and pass one contract suite (sinktest).
package sinks

import (
	"context"
	"errors"

	"kubecdc/change"
)

// ErrFenced: the sink takes no more from this writer of the slot. A newer owner may have opened the log, which only the
// checkpoint can tell; or the sink has given this one up. The log must be opened anew.
var ErrFenced = errors.New("the sink has fenced this writer of the slot")

// Sink is a destination. It is safe for concurrent use; each slot opens a Log of its own.
type Sink interface {
	// Open fences every earlier owner of the slot, and then reads what they made durable after the batch
	// that the checkpoint knows, oldest first: the caller rolls its checkpoint forward with these and never
	// emits them again. Of a recovered change only Stream.ID(), Op, Namespace, Name, UID, ResourceVersion and
	// After are set (Inferred and Gap too, where the sink has them); Controls are not recovered.
	// A *LostTailError comes with a log that is open and fit to write to, and with the batches that could be read.
	Open(ctx context.Context, slot int, epoch int64, from Durable) (Log, []Recovered, error)
	// Identity names the log: two sinks that write to the same one have the same identity, and no other has. A
	// checkpoint tells of one log only.
	Identity(ctx context.Context) (string, error)
	// Close frees what the sink holds; logs are closed first.
	Close() error
}

// Log is where one slot writes, under one epoch. It is used by one goroutine.
type Log interface {
	// Write makes the batch durable, all or nothing, and says where its records landed.
	// After any error but a context's the outcome is unknown: the caller must open the slot anew, which tells.
	Write(ctx context.Context, b *change.Batch) (change.Offsets, error)
	// Close ends the log without writing anything.
	Close() error
}

// Durable is what the checkpoint knows of the sink.
type Durable struct {
	Seq     uint64
	Offsets change.Offsets
}

// Recovered is a batch read back from the sink.
type Recovered struct {
	Batch   change.Batch
	Offsets change.Offsets // as Write returned them, or would have
}

// LostTailError: the log is not what the checkpoint thinks it is. What followed the checkpoint can't be read back any
// more, or what stood before it is gone (retention, a topic deleted or made anew).
type LostTailError struct {
	Reason string
	// TailRead: nothing is missing after the checkpoint. Otherwise every stream of the slot must be listed again and
	// compared with the inventory.
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
