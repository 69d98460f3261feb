package export

import (
	"time"

	"kubecdc/change"
	"kubecdc/source"
)

// Observer is told what the exporter does, for metrics, readiness and people.
type Observer interface {
	source.Observer
	// StreamAdded and StreamRemoved say which streams are owned here.
	StreamAdded(stream string)
	StreamRemoved(stream string)
	// StreamDoubt says why it is not known whether a stream's resource was removed; nil when that is known.
	StreamDoubt(stream string, err error)
	// StreamsKnown says that StreamAdded was called for all streams of a slot that are there now.
	StreamsKnown(slot int)
	// Standing follows every look at the other replicas.
	Standing(s Standing)
	// SlotHeld says that a slot is owned by this process now, or no more.
	SlotHeld(slot int, epoch int64, held bool)
	// Rebuilding says how many records of how many a slot has read to rebuild its checkpoint; of 0 when that has ended.
	Rebuilding(slot int, done, of int64)
	// RollingForward says which batch of the log a slot's checkpoint has come to, and which is the last; of 0 when that has ended.
	RollingForward(slot int, batch, of uint64)
	// Buffering gives a function that tells, whenever it is asked, how many items and bytes a slot has read and not yet
	// made durable; nil when the slot holds nothing any more.
	Buffering(slot int, fill func() (items, bytes int64))
	// Committed follows every batch that is durable and checkpointed.
	Committed(c Committed)
	// Stalled names what of a part (PartSink, PartCheckpoint) has had no answer for a while; nil when nothing waits for it.
	Stalled(part string, err error)
	// Problem names what a slot is stuck on; nil when it goes on.
	Problem(slot int, err error)
}

// Committed says what one commit cost.
type Committed struct {
	Batch      *change.Batch
	Bytes      int
	Sink       time.Duration // until the sink had it
	Checkpoint time.Duration // until the checkpoint had it
}

// Standing says how this replica stands among the others.
type Standing struct {
	Replicas int            // that live, this one included
	Owners   map[int]string // of the slots
	Self     string         // this one's name as an owner
	Held     int            // slots that it works on
	Share    int            // slots that it should hold
	Standby  string         // why it holds none and should hold none; empty otherwise
}
