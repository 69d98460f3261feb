package resharding

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// layoutChange changes the number of slots. It acquires every slot of both layouts, which fences all former owners, and rolls
// their checkpoints forward. After that only the checkpoint says where each stream continues, whichever slot the stream belonged
// to. Each slot of the new layout begins with a control record. So its offsets in the checkpoint are current even if the slot has
// not been used for a long time.
type layoutChange struct {
	*Resharder
	from, to int
	acquired []Slot // by number
}

func (c *layoutChange) run(ctx context.Context) error {
	if err := c.checkNoOtherReplicas(ctx); err != nil {
		return err
	}
	c.Logger.Info("changing the number of slots", "from", c.from, "to", c.to)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer c.close()
	for n := range max(c.from, c.to) { // in order, so that of two concurrent processes one fails at its first slot
		if err := c.open(ctx, n, fail); err != nil {
			return err
		}
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	return c.commit(ctx)
}

// checkNoOtherReplicas fails if a replica of the old layout is live. A replica that starts later finds the slots held, or this
// process does.
func (c *layoutChange) checkNoOtherReplicas(ctx context.Context) error {
	if _, err := c.Topology.Slots(ctx, c.from); err != nil { // from now on the store accepts calls for the old layout
		return err
	}
	replicas, err := c.Topology.Heartbeat(ctx, c.Owner, 0)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(replicas.Members, func(m string) bool { return m == c.Owner })
	if len(others) > 0 {
		return &otherLayoutError{c.to, c.from, others}
	}
	return nil
}

func (c *layoutChange) open(ctx context.Context, n int, fail context.CancelCauseFunc) error {
	slot, err := c.Acquire(ctx, n, c.from)
	if err != nil {
		return err
	}
	c.acquired = append(c.acquired, slot)
	return slot.Open(ctx, n >= c.from && !slot.State().New, fail)
}

// begin writes the first record of each slot of the new layout. Each slot's checkpoint gets the offsets of all data
// partitions, so that the loss of one of them is noticed.
func (c *layoutChange) begin(ctx context.Context) error {
	offsets := c.offsets()
	record := change.LayoutControl(fmt.Sprintf("KUBECDC_SLOTS was %d and is %d", c.from, c.to))
	for _, slot := range c.acquired[:c.to] {
		if err := slot.Begin(ctx, record, offsets); err != nil {
			return err
		}
	}
	return nil
}

// offsets returns each partition's furthest offset, and each topic's first id and first starts. If a topic lost records between
// the opening of two slots, only the checkpoint of the earlier slot shows it.
func (c *layoutChange) offsets() change.Offsets {
	all := change.Offsets{}
	for _, slot := range c.acquired[:c.from] {
		for topic, partitions := range slot.State().Offsets {
			for p, next := range partitions {
				if old := all[topic][p]; p >= 0 && old <= next || p == change.TopicID && old == 0 { // starts follow
					all.Merge(change.Offsets{topic: {p: next}})
				}
			}
		}
	}
	for topic, partitions := range all {
		for p := range maps.Clone(partitions) {
			if start := c.start(topic, p); p >= 0 && start > 0 {
				partitions[change.StartOf(p)] = start
			}
		}
	}
	return all
}

// start returns the lowest start of a partition in the checkpoints of slots that have written to it.
func (c *layoutChange) start(topic string, p int) (lowest int64) {
	lowest = math.MaxInt64
	for _, slot := range c.acquired[:c.from] {
		if _, wrote := slot.State().Offsets[topic][p]; wrote {
			lowest = min(lowest, slot.State().Offsets[topic][change.StartOf(p)])
		}
	}
	return lowest
}

func (c *layoutChange) commit(ctx context.Context) error {
	relayout := checkpoint.Relayout{From: c.from, To: c.to, Slots: map[int]checkpoint.SlotState{}}
	for n, slot := range c.acquired {
		relayout.Slots[n] = slot.State()
	}
	return c.Topology.Relayout(ctx, relayout)
}

func (c *layoutChange) close() {
	for _, slot := range c.acquired {
		slot.Close()
	}
}
