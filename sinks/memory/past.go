package memory

import (
	"context"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Past reads all batches of the cluster, whichever slot wrote them.
func (l *slotLog) Past(_ context.Context, wanted sinks.Wanted) (*sinks.Past, error) {
	past := &sinks.Past{Epoch: l.before}
	positions := map[change.StreamID]change.Position{}
	err := batches(l.read, func(b *batch) error {
		if b.cluster != l.cluster {
			return nil
		}
		if b.slot == l.slot {
			past.Seq = b.seq
		}
		past.Records += int64(len(b.changes))
		for _, p := range b.moves(positions) {
			if wanted.Stream(p.Stream) {
				positions[p.Stream] = p
			}
		}
		return nil
	})
	for _, stream := range slices.Sorted(maps.Keys(positions)) {
		past.Positions = append(past.Positions, positions[stream])
	}
	past.Fold = func(ctx context.Context, visit func(*change.Change) error, _ func(sinks.Folded)) (sinks.Folded, error) {
		return l.fold(ctx, wanted, visit)
	}
	return past, err
}

// moves are the positions after a batch. That a first list begins gives an empty one to a stream that has none, and that a
// stream is to be written anew gives it an empty one.
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

// fold hands on every change again, in order: the last one of an object is its state.
func (l *slotLog) fold(ctx context.Context, wanted sinks.Wanted, visit func(*change.Change) error) (done sinks.Folded, _ error) {
	err := batches(l.read, func(b *batch) error {
		if b.cluster != l.cluster {
			return ctx.Err()
		}
		for _, c := range b.changes {
			done.Records++
			if !wanted.Stream(c.Stream.ID()) {
				continue
			}
			state := *c
			if !wanted.Bodies {
				state.After = nil
			}
			done.Bytes += int64(len(state.After))
			if err := visit(&state); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return done, err
}
