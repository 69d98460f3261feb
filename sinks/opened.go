package sinks

import (
	"context"

	"kubecdc/change"
)

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

// Content reads back what a log has of streams.
type Content interface {
	// State reads what the log has of some streams, up to the end that Open found. It may have to read much of the log.
	State(ctx context.Context, which Selection) (*State, error)
	// Has reports whether the log may have objects of a stream that live there. It is cheap, and may be called beside all others.
	Has(ctx context.Context, stream *change.Stream) (bool, error)
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

// Durable is what the checkpoint knows of the sink.
type Durable struct {
	Seq     uint64
	Offsets change.Offsets
	// New: the checkpoint is new and does not know what the log has. Tail is empty; see Log.State.
	New bool
}
