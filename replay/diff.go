package replay

import (
	"cmp"
	"maps"
	"slices"

	"kubecdc/change"
)

// Diff is how one checkpoint differs from a later one.
type Diff struct {
	From    string          `json:"from"`
	To      string          `json:"to"`
	Slots   []SlotMoved     `json:"slots"`   // that have written batches
	Streams []StreamMoved   `json:"streams"` // that have moved, came or ended
	Offsets []PartitionMove `json:"offsets"` // of the partitions that were written to
}

// SlotMoved is a slot that has written batches.
type SlotMoved struct {
	Slot int    `json:"slot"`
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// StreamMoved is a stream with another position; From is empty for a new one.
type StreamMoved struct {
	Stream change.StreamID        `json:"stream"`
	From   change.ResourceVersion `json:"from"`
	To     change.ResourceVersion `json:"to"`
	Ended  change.Ended           `json:"ended,omitempty"`
}

// PartitionMove is a partition that was written to.
type PartitionMove struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// Compare gives what moved from one checkpoint to another.
func Compare(from, to *Checkpoint) *Diff {
	d := &Diff{From: from.Name, To: to.Name, Slots: []SlotMoved{}, Streams: []StreamMoved{}, Offsets: []PartitionMove{}}
	batches := from.Cut().Batches
	for _, s := range to.Slots {
		if batches[s.Slot] != s.Batch {
			d.Slots = append(d.Slots, SlotMoved{s.Slot, batches[s.Slot], s.Batch})
		}
	}
	before := map[change.StreamID]change.Position{}
	for _, p := range from.Positions {
		before[p.Stream] = p
	}
	for _, p := range to.Positions {
		if old := before[p.Stream]; old.ResourceVersion != p.ResourceVersion || old.Ended != p.Ended {
			d.Streams = append(d.Streams, StreamMoved{p.Stream, old.ResourceVersion, p.ResourceVersion, p.Ended})
		}
	}
	d.Offsets = append(d.Offsets, moved(from.Offsets, to.Offsets)...)
	return d
}

func moved(from, to change.Offsets) (all []PartitionMove) {
	for topic, partitions := range to {
		for _, p := range slices.Sorted(maps.Keys(partitions)) {
			if from[topic][p] != partitions[p] {
				all = append(all, PartitionMove{topic, p, from[topic][p], partitions[p]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b PartitionMove) int { return cmp.Compare(a.Topic, b.Topic) })
	return all
}
