package memory

import (
	"context"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
)

// State reads all batches of the cluster, whichever slot wrote them.
func (l *slotLog) State(_ context.Context, wanted sinks.Selection) (*sinks.State, error) {
	state := &sinks.State{Epoch: l.before}
	positions := map[change.StreamID]change.Position{}
	err := batches(l.read, func(b *batch) error {
		if b.cluster != l.cluster {
			return nil
		}
		if b.slot == l.slot {
			state.Seq = b.seq
		}
		state.Records += int64(len(b.changes))
		for _, p := range b.moves(positions) {
			if wanted.Stream(p.Stream) {
				positions[p.Stream] = p
			}
		}
		return nil
	})
	for _, stream := range slices.Sorted(maps.Keys(positions)) {
		state.Positions = append(state.Positions, positions[stream])
	}
	state.Fold = func(ctx context.Context, visit func(*change.Change) error, _ func(sinks.Progress)) (sinks.Progress, error) {
		return l.fold(ctx, wanted, visit)
	}
	return state, err
}

// moves are the positions after a batch. A stream gets an empty one when its first list begins, or when it is to be written
// again from the start.
func (b *batch) moves(have map[change.StreamID]change.Position) (moved []change.Position) {
	for _, c := range b.controls {
		_, known := have[c.Stream]
		begins := c.Type == change.ControlSnapshotBegin && !known
		if begins || c.Type == change.ControlGap && c.Gap.From == change.UnknownVersion {
			moved = append(moved, change.Position{Stream: c.Stream})
		}
	}
	return append(moved, b.positions...)
}

// fold visits every change in order: the last one of an object is its state.
func (l *slotLog) fold(
	ctx context.Context, wanted sinks.Selection, visit func(*change.Change) error,
) (done sinks.Progress, _ error) {
	err := batches(l.read, func(b *batch) error {
		if b.cluster != l.cluster {
			return ctx.Err()
		}
		for _, c := range b.changes {
			done.Records++
			if !wanted.Stream(c.Stream.ID()) {
				continue
			}
			last := *c
			if !wanted.Bodies {
				last.After = nil
			}
			done.Bytes += int64(len(last.After))
			if err := visit(&last); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return done, err
}
