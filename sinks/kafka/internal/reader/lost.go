package reader

import (
	"context"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/logread"
)

// removed compares where the partitions of topics begin with the starts in control records. Every slot that has written to a
// topic accounts for the topic's starts, once it has recorded the losses of its streams. It returns what was removed, by cluster
// and resource.
func (r *Reader) removed(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	begins := map[string]map[int]int64{}
	for _, topic := range topics {
		if change.IsSnapshotTopic(r.Envelope.Prefix, topic) {
			continue
		}
		starts, _, err := r.Client.Bounds(ctx, topic)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(starts, func(_ int, start int64) bool { return start == 0 })
		if len(starts) > 0 {
			begins[topic] = starts
		}
	}
	if len(begins) == 0 {
		return map[string]map[string]string{}, nil
	}
	slots, err := r.startsBySlot(ctx)
	removed := map[string]map[string]string{}
	for slot := range slots {
		removed[slot.Cluster] = map[string]string{}
		for topic, starts := range begins {
			for _, p := range slices.Backward(slices.Sorted(maps.Keys(starts))) {
				if starts[p] > accounted(slots, slot.Cluster, topic, p) {
					removed[slot.Cluster][r.idsOf([]string{topic})[0]] = sinks.Unrecorded("records before offset %d of "+
						"partition %d of %s were removed", starts[p], p, topic)
				}
			}
		}
	}
	return removed, err
}

// accounted returns the start of a partition that all slots of a cluster account for that have written to the topic.
func accounted(slots map[sinks.SlotID]map[string]map[int]int64, cluster, topic string, partition int) (start int64) {
	first := true
	for slot, topics := range slots {
		if starts := topics[topic]; slot.Cluster == cluster && starts != nil && (first || starts[partition] < start) {
			start, first = starts[partition], false
		}
	}
	return start
}

// startsBySlot returns for each slot, and each topic that it has written to, the starts of the partitions that it accounts for. A
// slot of the reader's own cluster is always among them.
func (r *Reader) startsBySlot(ctx context.Context) (map[sinks.SlotID]map[string]map[int]int64, error) {
	slots := map[sinks.SlotID]map[string]map[int]int64{{Cluster: r.Envelope.Cluster}: nil}
	return slots, r.controls(ctx, nil, func(c logread.Control) error {
		if c.Type == change.ControlLayout || slots[c.SlotID()] == nil { // after a layout the slots have other streams
			slots[c.SlotID()] = map[string]map[int]int64{}
		}
		known := slots[c.SlotID()]
		for topic := range c.Ranges {
			if known[topic] == nil {
				known[topic] = map[int]int64{}
			}
		}
		for topic, starts := range c.Starts {
			if known[topic] == nil {
				known[topic] = map[int]int64{}
			}
			maps.Copy(known[topic], starts)
		}
		return nil
	})
}
