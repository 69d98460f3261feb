package export

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
)

// recordLoss makes the streams of the resources that the log has lost start with a new snapshot. What the log lacks in comparison
// is written. Before that come gap records, so that no consumer takes it for new objects. Until they are in the log, the next
// session finds the same loss and does this again.
func (s *slot) recordLoss(ctx context.Context, state *checkpoint.SlotState, o *opened) error {
	positions, err := s.positionsOf(ctx, o.loss.Gone)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	if len(positions) == 0 {
		s.logger.Warn("the log has lost snapshots on demand, and nothing else", "reason", o.loss.Reason)
	} else {
		s.logger.Warn("comparing what the log still has with a snapshot", "streams", len(positions), "reason", o.loss.Reason)
	}
	var controls []change.Control
	first := map[change.StreamID]change.Position{}
	for _, p := range positions {
		known := slices.IndexFunc(o.before, func(k change.Position) bool { return k.Stream == p.Stream })
		if p.ResourceVersion == change.UnknownVersion && known >= 0 { // the log has lost the position too
			p = o.before[known]
		}
		if p.ResourceVersion != "" && p.Ended == "" { // otherwise its first list continues, or starts when the stream is selected again
			controls = append(controls, lossGap(p, o.loss.Reason))
		}
		p.ResourceVersion = ""
		first[p.Stream] = p
	}
	return s.writeControls(ctx, state, o, controls, first, o.loss.Offsets)
}

// lossGap is the gap record of a stream whose records the log has lost.
func lossGap(p change.Position, cause string) change.Control {
	return change.GapControl(p.Stream, p.ResourceVersion, change.Gap{ID: change.GapID(p.Stream, change.UnknownVersion),
		From: change.UnknownVersion, To: p.ResourceVersion, Reason: "the log has lost records; what it does not have of a snapshot follows"}, cause)
}

// owns reports whether a stream hashes to this slot.
func (s *slot) owns(stream change.StreamID) bool {
	return change.SlotOf(stream, s.config.Slots) == s.number
}

// positionsOf returns the positions of this slot's streams that satisfy a condition. If the condition is nil, it returns all.
func (s *slot) positionsOf(ctx context.Context, accepts func(change.StreamID) bool) ([]change.Position, error) {
	all, err := s.parts.Store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool {
		return !s.owns(p.Stream) || accepts != nil && !accepts(p.Stream)
	}), err
}

// writeControls writes a batch of control records that moves positions.
func (s *slot) writeControls(ctx context.Context, state *checkpoint.SlotState, m Memory, controls []change.Control,
	positions map[change.StreamID]change.Position, offsets change.Offsets) error {
	p := &batching.Prepared{Batch: &change.Batch{Controls: controls, Positions: slices.Collect(maps.Values(positions))}, Offsets: offsets}
	(&numbering{s.number, state.Epoch, m.Seq(), s.config.Cluster}).next(p.Batch)
	started := time.Now()
	err := m.Write(ctx, p)
	if err == nil {
		s.parts.State.Committed(live.Committed{Batch: p.Batch, Sink: time.Since(started)})
		err = m.Remember(ctx, p)
	}
	if err == nil {
		err = m.Flush(ctx)
	}
	state.Offsets = state.Offsets.Merge(p.Offsets)
	return err
}
