package reader

import (
	"context"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/logread"
)

// Lost compares where the partitions of a topic begin with what the control records account for. Every slot that has written to a topic
// accounts for the starts by itself, once it has recorded what they cost its streams.
func (r *Reader) Lost(ctx context.Context, resource string) (string, error) {
	topic := change.TopicOf(r.Envelope.Prefix, change.StreamID(resource))
	if change.IsSnapshotTopic(r.Envelope.Prefix, topic) {
		return "", nil
	}
	starts, _, err := r.Client.Bounds(ctx, topic)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(starts, func(_ int, start int64) bool { return start == 0 })
	if len(starts) == 0 {
		return "", nil
	}
	slots, err := r.startsBySlot(ctx, topic)
	if err != nil {
		return "", err
	}
	for _, p := range slices.Sorted(maps.Keys(starts)) {
		told := int64(0)
		for i, slot := range slices.Sorted(maps.Keys(slots)) {
			if start := slots[slot][p]; i == 0 || start < told {
				told = start
			}
		}
		if starts[p] > told {
			return sinks.Unrecorded("records before offset %d of partition %d of %s were removed", starts[p], p, topic), nil
		}
	}
	return "", nil
}

// startsBySlot returns for each slot that has written to a topic the starts of its partitions that the slot accounts for.
func (r *Reader) startsBySlot(ctx context.Context, topic string) (map[int]map[int]int64, error) {
	slots := map[int]map[int]int64{}
	return slots, r.controls(ctx, nil, func(c logread.Control) error {
		if c.Type == change.ControlLayout { // the slots have other streams from here on
			delete(slots, c.Slot)
		}
		if c.Ranges[topic] != nil || c.Starts[topic] != nil {
			if slots[c.Slot] == nil {
				slots[c.Slot] = map[int]int64{}
			}
			maps.Copy(slots[c.Slot], c.Starts[topic])
		}
		return nil
	})
}
