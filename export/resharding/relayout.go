package resharding

import (
	"context"
	"fmt"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// relayout changes the number of slots. It becomes the owner of every slot of both layouts, which fences whoever
// thinks to be one, and rolls all their tails forward: after that the checkpoint alone says where each stream stands,
// whichever slot it belonged to. Each slot of the new layout begins with a control record, so that its offsets in
// the checkpoint are of now, and not of when it was used last.
type relayout struct {
	*Resharder
	from, to int
	acquired []Slot // by number
}

func (r *relayout) run(ctx context.Context) error {
	if err := r.alone(ctx); err != nil {
		return err
	}
	r.Logger.Info("changing the number of slots", "from", r.from, "to", r.to)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer r.close()
	for n := range max(r.from, r.to) { // in order, so that of two processes that come at once one fails at the first
		if err := r.open(ctx, n, fail); err != nil {
			return err
		}
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	return r.store(ctx)
}

// alone makes sure that no replica of the old layout lives. One may yet start: then it owns a slot, or finds it held.
func (r *relayout) alone(ctx context.Context) error {
	if _, err := r.Topology.Slots(ctx, r.from); err != nil { // from here on, the store speaks of the old layout
		return err
	}
	replicas, err := r.Leases.Heartbeat(ctx, r.Owner, 0)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(replicas.Members, func(m string) bool { return m == r.Owner })
	if len(others) > 0 {
		return &othersError{r.to, r.from, others}
	}
	return nil
}

// open takes a slot and keeps it.
func (r *relayout) open(ctx context.Context, n int, fail context.CancelCauseFunc) error {
	slot, err := r.Acquire(ctx, n, r.from)
	if err != nil {
		return err
	}
	r.acquired = append(r.acquired, slot)
	return slot.Open(ctx, n >= r.from && !slot.State().New, fail)
}

// begin writes the first record of each slot of the new layout. Its checkpoint takes over where all data partitions
// stand, so that it is noticed when one of them is lost.
func (r *relayout) begin(ctx context.Context) error {
	offsets := change.Offsets{}
	for _, slot := range r.acquired[:r.from] {
		offsets.Merge(slot.State().Offsets)
	}
	record := change.Control{Type: change.ControlLayout, Cause: fmt.Sprintf("KUBECDC_SLOTS was %d and is %d", r.from, r.to)}
	for _, slot := range r.acquired[:r.to] {
		if err := slot.Begin(ctx, record, offsets); err != nil {
			return err
		}
	}
	return nil
}

// store changes the number in the checkpoint.
func (r *relayout) store(ctx context.Context) error {
	do := checkpoint.Relayout{From: r.from, To: r.to, Slots: map[int]checkpoint.SlotState{}}
	for n, slot := range r.acquired {
		do.Slots[n] = slot.State()
	}
	return r.Topology.Relayout(ctx, do)
}

func (r *relayout) close() {
	for _, slot := range r.acquired {
		slot.Close()
	}
}
