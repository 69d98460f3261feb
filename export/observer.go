package export

import (
	"time"

	"kubecdc/change"
	"kubecdc/export/ownership"
	"kubecdc/export/rebuild"
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// Observer is notified of what the exporter does, for metrics, readiness and progress.
type Observer interface {
	reflector.Observer
	dependency.Observer
	ownership.Observer
	rebuild.Observer
	// StreamAdded and StreamRemoved give the streams of the slots that this process owns.
	StreamAdded(stream change.StreamID)
	StreamRemoved(stream change.StreamID)
	// SlotStreams gives the position of each stream of a slot that this process works on, before a session reads them; without
	// a time, if the log has nothing of the stream. None: the slot is another replica's.
	SlotStreams(slot int, positions []change.Position)
	// StreamObjects gives a function that returns how many objects of a stream of a slot are known;
	// nil: the stream is not read.
	StreamObjects(slot int, stream change.StreamID, known func() int64)
	// RemovalUnknown gives the reason why it is unknown whether a stream's resource was removed; nil when it is known.
	RemovalUnknown(stream change.StreamID, err error)
	// SelectionLacks gives what the settings select that the API server does not show; nil when all is there.
	SelectionLacks(err error)
	// StreamsKnown is called once StreamAdded was called for all streams of a slot.
	StreamsKnown(slot int)
	// SlotHeld is called when this process starts and stops to own a slot.
	SlotHeld(slot int, epoch int64, held bool)
	// RollingForward gives the batch that a slot's checkpoint was rolled forward to, and the last one of the log; last is 0
	// when rolling forward has ended.
	RollingForward(slot int, batch, last uint64)
	// Buffering gives a function that returns what a slot has in memory; nil when the session has ended.
	Buffering(slot int, fill func() Fill)
	// Committed is called for every batch that is durable.
	Committed(c Committed)
	// Checkpointed is called after every commit of the checkpoint, which may be of several batches, with the time that it took.
	Checkpointed(slot int, took time.Duration)
	// CheckpointSize gives the size of the checkpoint's database, now and then.
	CheckpointSize(bytes int64)
}

// Fill is what a slot has in memory.
type Fill struct {
	Changes, Bytes       int64 // of what was read and is not durable yet
	MaxChanges, MaxBytes int64 // of these: then the streams wait
	Pending              int64 // objects whose last state is in the log and not yet in the checkpoint
	Streams              map[change.StreamID]time.Time
}

// Committed is a committed batch, and what its commit took.
type Committed struct {
	Batch   *change.Batch
	Bytes   int
	Ignored map[string]int // updates that were not written, by resource
	// How long each stage took; 0: the batch has not passed it. Collect is the time from the batch's first record.
	Collect, BeforeImages, Prepare, Sink time.Duration
}
