package export

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/export/rebuild"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// reconcile makes the checkpoint match the opened log. The checkpoint is rebuilt if it does not know what the log has, or if the log
// has lost what the checkpoint counts on: an object whose deletion is lost lives in the log, and the checkpoint knows it no more. Of streams
// that the checkpoint does not know it gets what the log has.
func (s *slot) reconcile(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, loss *sinks.LostTailError) error {
	if loss == nil {
		loss = s.loss
	}
	loss, err := s.ofThisSlot(ctx, loss)
	if err != nil {
		return err
	}
	why, damaged, unread := loss, false, false
	switch {
	case loss != nil:
	case state.New:
		why = &sinks.LostTailError{Reason: "the checkpoint knows of no batch"}
	case s.damaged:
		why, damaged = &sinks.LostTailError{Reason: "the checkpoint is damaged"}, true
	case len(s.unread) > 0:
		why, unread = s.unreadStreams(), true
	default:
		return nil
	}
	before, err := s.positionsOf(ctx, nil)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	more, err := s.rebuildFrom(ctx, log, state, why, before, damaged)
	if err != nil {
		return err
	}
	if unread {
		s.noteReadBack()
	}
	if more, err = s.ofThisSlot(ctx, more); err != nil {
		return err
	}
	if all := loss.Join(more); all != nil && all.Gone != nil {
		return s.recordLoss(ctx, state, log, all, before)
	}
	return nil
}

// ofThisSlot returns a loss, or nil if it concerns no stream that the slot exports, and no offset.
func (s *slot) ofThisSlot(ctx context.Context, loss *sinks.LostTailError) (*sinks.LostTailError, error) {
	if loss == nil || !loss.TailRead || loss.Gone == nil || len(loss.Offsets) > 0 {
		return loss, nil
	}
	positions, err := s.positionsOf(ctx, loss.Gone)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	if slices.ContainsFunc(positions, func(p change.Position) bool { return p.Ended == "" }) {
		return loss, nil
	}
	return nil, nil
}

// rebuildFrom rebuilds the checkpoint of this slot's streams from what the log has; if the log has only lost the records of some
// resources, that of their streams. It returns what else the log turned out to have lost.
func (s *slot) rebuildFrom(ctx context.Context, log sinks.Log, state *checkpoint.SlotState, loss *sinks.LostTailError,
	known []change.Position, damaged bool) (*sinks.LostTailError, error) {
	partial := loss.TailRead && loss.Gone != nil && !state.New && !s.damaged
	mine := func(stream change.StreamID) bool {
		return s.owns(stream) && !stream.IsSnapshot() && (!partial || loss.Gone(stream))
	}
	return rebuild.Slot{Number: s.number, Mine: mine, Partial: partial, Unknown: loss.Reason == "", Known: known, Bodies: s.storesBodies(), Redactor: cached(s.bodyRedactorOf),
		Damaged: damaged, Store: s.parts.Store, Delayed: s.parts.State.Delayed, Logger: s.logger}.Run(ctx, log, state, loss)
}

// recordLoss makes this slot's streams of the resources that the log has lost be compared with a snapshot, of which what the log
// does not have is written. Gap records come first, so that no consumer takes that for new objects. As long as the offsets of the
// remaining partitions are not in the checkpoint, the next session finds the same loss and does this again.
func (s *slot) recordLoss(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, loss *sinks.LostTailError,
	before []change.Position) error {
	positions, err := s.positionsOf(ctx, loss.Gone)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	if len(positions) == 0 {
		s.logger.Warn("the log has lost snapshots on demand, and nothing else", "reason", loss.Reason)
	} else {
		s.logger.Warn("comparing what the log still has with a snapshot", "streams", len(positions), "reason", loss.Reason)
	}
	var controls []change.Control
	first := map[change.StreamID]change.Position{}
	for _, p := range positions {
		known := slices.IndexFunc(before, func(k change.Position) bool { return k.Stream == p.Stream })
		if p.ResourceVersion == change.UnknownVersion && known >= 0 { // the log does not have the position either
			p = before[known]
		}
		if p.ResourceVersion != "" && p.Ended == "" { // otherwise its first list continues, or will start when it is selected again
			controls = append(controls, lossGap(p, loss.Reason))
		}
		p.ResourceVersion = ""
		first[p.Stream] = p
	}
	return s.commitControls(ctx, state, log, controls, first, loss.Offsets)
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

// positionsOf returns the positions of this slot's streams, limited to those that among accepts; nil: no limit.
func (s *slot) positionsOf(ctx context.Context, among func(change.StreamID) bool) ([]change.Position, error) {
	all, err := s.parts.Store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool {
		return !s.owns(p.Stream) || among != nil && !among(p.Stream)
	}), err
}

// commitControls writes a batch of control records that moves positions, and checkpoints it.
func (s *slot) commitControls(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, controls []change.Control,
	positions map[change.StreamID]change.Position, offsets change.Offsets) error {
	batch := &change.Batch{Controls: controls, Positions: slices.Collect(maps.Values(positions))}
	(&numbering{s.number, state.Epoch, state.Seq, s.config.Cluster}).next(batch)
	started := time.Now()
	written, err := log.Write(ctx, batch)
	if err != nil {
		return dependency.Tag(dependency.Sink, err)
	}
	took := time.Since(started)
	moved := change.Offsets{}.Merge(offsets).Merge(written)
	if err := s.parts.Store.Commit(ctx, commitOf(batch, state.Epoch, moved, false)); err != nil {
		return dependency.OfCheckpoint(err)
	}
	state.Seq, state.Offsets = batch.Seq, state.Offsets.Merge(moved)
	s.parts.State.Committed(live.Committed{Batch: batch, Sink: took})
	s.parts.State.Checkpointed(time.Since(started) - took)
	return nil
}
