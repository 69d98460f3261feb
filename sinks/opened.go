package sinks

import (
	"context"

	"kubecdc/change"
)

// Opened is the log of a slot, as Open returns it to a new owner.
type Opened struct {
	Log Log
	// Last is the number of the last batch that Open has seen, or 0.
	Last uint64
	// Lost is what the log has lost, as far as Open has read it, or nil.
	Lost *LostTailError
	// Hole is a hole in the middle of the log, or nil. Open searches no longer than HoleTime, and finds a hole until records
	// explain it.
	Hole *Hole
	// Memory is set if the log is its own memory. Otherwise it is nil, and the log has Content and Tail.
	Memory  Memory
	Content Content
	// Tail reads back the batches after the checkpoint's batch, which earlier owners have made durable. It calls visit with each,
	// oldest first, while it reads. Memory holds a few MB of them, or one batch if that is larger. The caller rolls its
	// checkpoint forward with them, and never emits them again.
	//
	// Tail is called at most once, before the first write. A batch is valid until visit returns, and an error of visit ends the
	// read. If the rest of the tail can't be read, Tail returns a *LostTailError after the last complete batch, which replaces
	// Lost.
	Tail func(ctx context.Context, visit func(*Recovered) error) error
	// Passed is how many records of all slots Open has read after the checkpoint's batch. After a new batch, the next owner need
	// not read them.
	Passed int64
}

// NoTail is the Tail of a log without one.
func NoTail(context.Context, func(*Recovered) error) error { return nil }

// Content reads back what a log has of streams.
type Content interface {
	// State reads what the log has of some streams, up to the end that Open found. It may read much of the log.
	State(ctx context.Context, which Selection) (*State, error)
	// Has reports whether the log may have live objects of a stream. It is cheap, and may be called while other methods run.
	Has(ctx context.Context, stream *change.Stream) (bool, error)
}

// Selection selects the part of a log from which a checkpoint is rebuilt.
type Selection struct {
	Stream func(id change.StreamID) bool
	Bodies bool // if false, Fold leaves Change.After empty
}

// State is all that a checkpoint needs of some streams to go on from the end of the log. It includes the batches of all owners,
// and of layouts with another number of slots.
type State struct {
	Seq     uint64 // the slot's last batch; 0: the log has none
	Epoch   int64  // the epoch of the newest earlier owner
	Offsets change.Offsets
	// Positions are each stream's newest. The position of a stream whose first list has not ended is empty.
	Positions []change.Position
	Records   int64 // about how many Fold will read
	// Fold visits changes. The last change of each object is the object's state. A change has the same fields as the changes of
	// Recovered, and is valid until visit returns. Fold calls progress from time to time.
	Fold func(ctx context.Context, visit func(*change.Change) error, progress func(Progress)) (Progress, error)
	// Lost is what the log has lost of these streams, or nil.
	Lost *LostTailError
}

// Progress is the progress of Fold.
type Progress struct {
	Records int64 // number read, selected or not
	Bytes   int64 // bytes of the selected records
}

// Recovered is a batch that was read back from the sink. Its changes have only Stream.ID(), Op, Namespace, Name, UID,
// ResourceVersion and After. They have Inferred and Gap if the sink has these. Controls are not recovered.
type Recovered struct {
	Batch   change.Batch
	Offsets change.Offsets // as Write returned them, or would have
}

// Durable is what the checkpoint knows of the sink.
type Durable struct {
	Seq     uint64
	Offsets change.Offsets
	// New means that the checkpoint is new and does not know what the log has. Then Tail is empty: see Log.State.
	New bool
}
