package change

import (
	"fmt"
	"maps"
	"time"
)

// Position is how far a stream is complete in the log.
type Position struct {
	Stream StreamID `json:"stream"`
	// Every change up to and including ResourceVersion is in the log. It is empty until the first list is complete.
	ResourceVersion ResourceVersion `json:"resourceVersion"`
	Time            time.Time       `json:"time"` // when the event, bookmark or list happened that confirmed it last
	// Ended is empty while the stream is exported. A stream's end is part of its position. So it moves with the batch that
	// records it, and is read back from the log as all positions are.
	Ended Ended `json:"ended,omitempty"`
}

// Ended is how a stream ended.
type Ended string

const (
	// EndedRemoved: the resource was removed from the API, and the log has the deletion of each object. The position is
	// forgotten: if the resource is served again, it is a new stream.
	EndedRemoved Ended = "removed"
	// EndedDeselected: the settings do not select the stream any more. Position and inventory are retained until it is selected
	// again.
	EndedDeselected Ended = "deselected"
)

// Batch is the changes of one commit, with their control records and the resulting positions. A sink makes all of it durable, or
// nothing.
type Batch struct {
	Slot      int
	Epoch     int64
	Seq       uint64 // 1, 2, 3 … within a slot, over all epochs. A batch that is read back has its old number
	Changes   []Change
	Positions []Position // at most one per stream
	Controls  []Control
	Malformed []Malformed
	// Unwritten are the objects whose last update is not written, since it changes only ignored fields. A log that remembers live
	// objects takes their versions.
	Unwritten []ObjectVersion
}

// ObjectVersion is an object, and the version of it that is known.
type ObjectVersion struct {
	Stream          StreamID
	Namespace, Name string
	UID             string
	ResourceVersion ResourceVersion
}

// Malformed is what the API server sent and can't be parsed as an object. It is written to the dead-letter topic unchanged.
type Malformed struct {
	Stream StreamID
	Bytes  []byte
	Reason string
}

// MalformedID is the id, in the dead-letter topic, of element n of Malformed.
func (b *Batch) MalformedID(n int) string {
	return fmt.Sprintf("malformed/%d/%d/%d/%d", b.Slot, b.Epoch, b.Seq, n)
}

// Offsets are the next offsets of a sink's partitions after a batch, by topic and partition. They are empty for a sink without
// offsets. Two more facts of a topic have negative numbers in place of a partition. TopicID is a negative number that differs
// between two topics of the same name, or 0 if the sink has none. StartOf a partition is the offset at which the partition
// begins, if that is not 0. The log records which earlier offsets were removed.
type Offsets map[string]map[int]int64

// TopicID is in place of a partition. It is lower than all partitions.
const TopicID = -1

// StartOf is in place of a partition. It is lower than TopicID.
func StartOf(partition int) int { return TopicID - 1 - partition }

// Merge copies all offsets of other into o, and returns o, or a new map if o is nil.
func (o Offsets) Merge(other Offsets) Offsets {
	if o == nil {
		o = Offsets{}
	}
	for topic, partitions := range other {
		if o[topic] == nil {
			o[topic] = map[int]int64{}
		}
		maps.Copy(o[topic], partitions)
	}
	return o
}

// Has reports whether every offset of another place has been reached here.
func (o Offsets) Has(place Offsets) bool {
	for topic, partitions := range place {
		for p, offset := range partitions {
			if o[topic][p] < offset {
				return false
			}
		}
	}
	return true
}
