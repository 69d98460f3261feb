package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
)

// recordLoss makes the streams of the resources that the log has lost start with a comparison. What the log lacks is written.
// The gap records come first, so that no consumer takes the repair for new objects. Until they are in the log, the next session
// finds the same loss and does this again. Each record ends with the stream's last position, at which the log is compared
// (streams.LostVersions): what happened since is read as after any interruption.
func (s *slot) recordLoss(ctx context.Context, state *checkpoint.SlotState, o *commit.Opened) error {
	positions, err := s.Positions(ctx, o.Loss.Gone)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	if len(positions) == 0 {
		s.Logger.Warn("the log has lost snapshots on demand, and nothing else", "reason", o.Loss.Reason)
	} else {
		s.Logger.Warn("comparing what the log still has with the API server", "streams", len(positions), "reason", o.Loss.Reason)
	}
	var controls []change.Control
	first := map[change.StreamID]change.Position{}
	for _, p := range positions {
		known := slices.IndexFunc(o.Had, func(k change.Position) bool { return k.Stream == p.Stream })
		if known >= 0 && o.Had[known].ResourceVersion.Compare(p.ResourceVersion) > 0 {
			p = o.Had[known] // the log has lost the position too
		}
		lossy := p
		if p.ResourceVersion = ""; lossy.ResourceVersion != "" && p.Ended == "" { // else its first list goes on, or begins later
			controls = append(controls, lossGap(lossy, change.LostRecords, o.Loss.Reason))
			p.ResourceVersion = change.UnknownVersion
		}
		first[p.Stream] = p
	}
	return s.writeControls(ctx, state, o, controls, first, o.Loss.Offsets)
}

// lossGap is the gap record of a stream whose records the log has lost.
func lossGap(p change.Position, reason, cause string) change.Control {
	return change.GapControl(p.Stream, p.ResourceVersion, change.Gap{ID: change.GapID(p.Stream, change.UnknownVersion),
		From: change.UnknownVersion, To: p.ResourceVersion, Reason: reason}, cause)
}

// writeControls writes a batch of control records that moves positions.
func (s *slot) writeControls(ctx context.Context, state *checkpoint.SlotState, o *commit.Opened, controls []change.Control,
	positions map[change.StreamID]change.Position, offsets change.Offsets) error {
	p := &batching.Prepared{Batch: &change.Batch{Controls: controls, Positions: slices.Collect(maps.Values(positions))},
		Offsets: offsets}
	(&commit.Numbering{Slot: s.Number, Epoch: state.Epoch, Seq: o.Seq(), Cluster: s.Config.Cluster}).Next(p.Batch)
	started := time.Now()
	err := o.Write(ctx, p)
	if err == nil {
		s.Parts.State.Committed(live.Committed{Batch: p.Batch, Sink: time.Since(started)})
	}
	if err == nil && o.Following != nil {
		if err = o.Following.Remember(ctx, p); err == nil {
			err = o.Following.Flush(ctx)
		}
	}
	state.Offsets = state.Offsets.Merge(p.Offsets)
	return err
}
