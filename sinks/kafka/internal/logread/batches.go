package logread

import (
	"context"

	"kubecdc/sinks"
)

// maxHole is up to how many records between two batches are read and dropped, which is faster than another fetch.
const maxHole = 1000

// Batches reads the changes of consecutive batches, one range of offsets after another, and each partition in order.
// Other records may be between them. With at-least-once delivery there may also be records of an owner that was being
// fenced. in reports whether to read a topic, and c has further conditions. visit gets each change with the index of its batch.
func (l *Log) Batches(
	ctx context.Context, batches []Control, in func(topic string) (bool, error), c Changes, visit func(int, *sinks.Logged) error,
) error {
	indexes := map[sinks.BatchID][]int{} // clusters have the same slots and numbers
	for i, b := range batches {
		id := sinks.BatchOf(b.Slot, b.Epoch, b.Batch)
		indexes[id] = append(indexes[id], i)
	}
	index := func(g *sinks.Logged) int {
		for _, i := range indexes[sinks.BatchOf(g.Slot, g.Epoch, g.Batch)] {
			ends := batches[i].Ranges[g.Topic][g.Partition]
			if g.Offset >= ends[0] && g.Offset <= ends[1] && (g.Cluster == "" || g.Cluster == batches[i].Cluster) {
				return i
			}
		}
		return -1
	}
	c.Committed = true
	c.Selected = func(g *sinks.Logged) bool { return index(g) >= 0 } // whose cluster is not known yet
	wanted := c.Wanted
	c.Wanted = func(g *sinks.Logged) bool { return index(g) >= 0 && (wanted == nil || wanted(g)) }
	c.Visit = func(g *sinks.Logged) error { return visit(index(g), g) }
	for topic, partitions := range spans(batches) {
		if ok, err := in(topic); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		for p, list := range partitions {
			for _, ends := range list {
				c.Span = Span{topic, int32(p), ends[0], ends[1] + 1}
				if err := l.Changes(ctx, c).ReadTo(ctx, ends[1]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// spans returns the offsets to read of each topic and partition, both ends included. They are the ranges of the batches, joined
// if the hole is small.
func spans(batches []Control) map[string]map[int][][2]int64 {
	all := map[string]map[int][][2]int64{}
	for _, b := range batches {
		for topic, ranges := range b.Ranges {
			if all[topic] == nil {
				all[topic] = map[int][][2]int64{}
			}
			for p, ends := range ranges {
				list := all[topic][p]
				if n := len(list); n > 0 && ends[0]-list[n-1][1] <= maxHole {
					list[n-1][1] = max(list[n-1][1], ends[1])
				} else {
					all[topic][p] = append(list, ends)
				}
			}
		}
	}
	return all
}
