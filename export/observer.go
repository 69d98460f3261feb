package export

import (
	"time"

	"kubecdc/change"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/export/rebuild"
	"kubecdc/source/reflector"
)

// Observer is told what the exporter does, for metrics, readiness and people.
type Observer interface {
	reflector.Observer
	dependency.Observer
	ownership.Observer
	rebuild.Observer
	// StreamAdded and StreamRemoved say which streams are owned here.
	StreamAdded(stream change.StreamID)
	StreamRemoved(stream change.StreamID)
	// StreamDoubt says why it is not known whether a stream's resource was removed; nil when that is known.
	StreamDoubt(stream change.StreamID, err error)
	// StreamsKnown says that StreamAdded was called for all streams of a slot that are there now.
	StreamsKnown(slot int)
	// SlotHeld says that a slot is owned by this process now, or no more.
	SlotHeld(slot int, epoch int64, held bool)
	// RollingForward says which batch of the log a slot's checkpoint has come to, and which is the last; of 0 when that has ended.
	RollingForward(slot int, batch, of uint64)
	// Buffering gives a function that tells, whenever it is asked, how many items and bytes a slot has read and not yet
	// made durable; nil when the slot holds nothing any more.
	Buffering(slot int, fill func() (items, bytes int64))
	// Committed follows every batch that is durable and checkpointed.
	Committed(c Committed)
}

// Committed says what one commit cost.
type Committed struct {
	Batch      *change.Batch
	Bytes      int
	Sink       time.Duration // until the sink had it
	Checkpoint time.Duration // until the checkpoint had it
}
