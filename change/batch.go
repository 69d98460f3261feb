package change

import (
	"fmt"
	"time"
)

// Position is how far a stream is known to be complete in the log.
type Position struct {
	Stream StreamID `json:"stream"`
	// ResourceVersion: every change up to and including it is in the log. Empty while the first list is running.
	ResourceVersion ResourceVersion `json:"resourceVersion"`
	Time            time.Time       `json:"time"` // when the server last said so: an event, a bookmark or the end of a list
	// Ended says that the stream has ended, and how; empty while it lives.
	Ended Ended `json:"ended,omitempty"`
}

// Ended is how a stream ended.
type Ended string

const (
	// EndedRemoved: its resource was removed from the API, and the log has the deletion of each object. The position is
	// forgotten: should the resource come back, it is a new stream.
	EndedRemoved Ended = "removed"
	// EndedDeselected: it is not selected any more. Position and inventory are kept, for when it is selected again.
	EndedDeselected Ended = "deselected"
)

// Batch is the unit of everything: the changes of one commit, the control records that belong to them, and the
// positions that they move to. A sink makes it durable as a whole or not at all.
type Batch struct {
	Slot      int
	Epoch     int64
	Seq       uint64 // 1, 2, 3 … within a slot, over all epochs; a recovered batch keeps its number
	Changes   []Change
	Positions []Position // at most one a stream
	Controls  []Control
	Malformed []Malformed
}

// Malformed is something the API server sent that can't be read as an object. It goes to the dead letter as it came.
type Malformed struct {
	Stream StreamID
	Bytes  []byte
	Reason string
}

// MalformedID names the batch's malformed thing number n, from 0, in the dead letter.
func (b *Batch) MalformedID(n int) string {
	return fmt.Sprintf("malformed/%d/%d/%d/%d", b.Slot, b.Epoch, b.Seq, n)
}

// Offsets says where each partition of a sink stood after a batch: topic, partition, next offset.
// Sinks that have no offsets leave it empty.
type Offsets map[string]map[int]int64

// Merge sets every offset of other in o, and returns o (made when nil).
func (o Offsets) Merge(other Offsets) Offsets {
	if o == nil {
		o = Offsets{}
	}
	for topic, partitions := range other {
		if o[topic] == nil {
			o[topic] = map[int]int64{}
		}
		for p, next := range partitions {
			o[topic][p] = next
		}
	}
	return o
}
