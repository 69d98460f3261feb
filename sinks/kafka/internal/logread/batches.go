package logread

import (
	"context"

	"kubecdc/sinks"
)

// maxHole is up to how many records between two batches are read and dropped, which is faster than another fetch.
const maxHole = 1000

// Batches reads the changes of consecutive batches of one slot, one range of offsets after another: of each partition in their
// order. Records of other slots may stand among them and, with at-least-once delivery, of an owner that was being fenced. in says
// whether to read a topic; c has what else selects changes. visit gets each with the number of its batch among those given.
func (l *Log) Batches(
	ctx context.Context, batches []Control, in func(topic string) (bool, error), c Changes, visit func(int, *sinks.Logged) error,
) error {
	at := map[batchID]int{}
	for i, b := range batches {
		at[batchID{b.Slot, b.Epoch, b.Batch}] = i
	}
	c.Committed = true
	c.Of = func(g *sinks.Logged) bool {
		i, ok := at[batchID{g.Slot, g.Epoch, g.Batch}]
		return ok && g.Offset >= batches[i].Ranges[g.Topic][g.Partition][0] && g.Offset <= batches[i].Ranges[g.Topic][g.Partition][1]
	}
	c.Visit = func(g *sinks.Logged) error { return visit(at[batchID{g.Slot, g.Epoch, g.Batch}], g) }
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

// batchID identifies a batch by the headers of its records.
type batchID struct {
	slot  int
	epoch int64
	batch uint64
}

// spans are the offsets to read of each topic and partition, both ends included: the ranges of the batches, joined where the hole
// is small.
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
