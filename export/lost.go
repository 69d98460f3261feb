package export

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/export/rebuild"
	"kubecdc/sinks"
)

// reconcile makes the checkpoint fit the log that was opened: it is rebuilt where it does not know what the log has, and what
// the log has lost is noted.
func (s *slot) reconcile(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, lost *sinks.LostTailError) error {
	if lost != nil && lost.All {
		return s.noteLost(ctx, state, log, lost)
	}
	var more *sinks.LostTailError
	if state.New || lost != nil && !lost.TailRead {
		why := &sinks.LostTailError{Reason: "the checkpoint knows of no batch"}
		if lost != nil {
			why = lost
		}
		var err error
		if more, err = s.rebuildFrom(ctx, log, state, why); err != nil {
			return err
		}
	}
	for _, l := range []*sinks.LostTailError{lost, more} {
		if l == nil || l.Gone == nil {
			continue
		}
		if err := s.noteLost(ctx, state, log, l); err != nil {
			return err
		}
	}
	return nil
}

// rebuildFrom rebuilds the checkpoint of this slot's streams, but for those whose records are gone: they are written again.
func (s *slot) rebuildFrom(ctx context.Context, log sinks.Log, state *checkpoint.SlotState, lost *sinks.LostTailError) (*sinks.LostTailError, error) {
	known := func(ctx context.Context) ([]change.Position, error) { return s.positionsOf(ctx, nil) }
	mine := func(stream change.StreamID) bool {
		return ownership.SlotOf(stream, s.config.Slots) == s.number && (lost.Gone == nil || !lost.Gone(change.ResourceOf(stream)))
	}
	return rebuild.Slot{Number: s.number, Mine: mine, Known: known, Bodies: s.config.Before, Rewrite: s.rewrites(),
		Store: s.parts.Store, Observer: s.parts.Observer, Log: s.log}.Run(ctx, log, state, lost)
}

// noteLost notes what the log has lost of what was written before the checkpoint.
func (s *slot) noteLost(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, lost *sinks.LostTailError) error {
	s.log.Error("the log is not what was written", "reason", lost.Reason, "all", lost.All)
	if lost.All {
		return s.rewrite(ctx, state, log, lost, nil)
	}
	return s.rewrite(ctx, state, log, lost, lost.Gone)
}

// rewrite makes this slot's streams of the resources that are gone (nil: all) be written again from the start, by a snapshot. The
// gap records come first, so that nobody takes the snapshot for news. Until the offsets of what is left are in the
// checkpoint the loss will be found, and all of this be done, again. That all is gone is found only until something was written:
// there the checkpoint comes first.
func (s *slot) rewrite(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, lost *sinks.LostTailError, gone func(change.Resource) bool) error {
	positions, err := s.positionsOf(ctx, gone)
	if err != nil {
		return err
	}
	var controls []change.Control
	var streams []change.StreamID
	for _, p := range positions {
		streams = append(streams, p.Stream)
		if p.ResourceVersion == "" && !lost.All || p.Ended != "" {
			continue // its first list goes on; or will begin when it is selected again
		}
		controls = append(controls, change.Control{Type: change.ControlGap, Stream: p.Stream, ResourceVersion: p.ResourceVersion, Cause: lost.Reason,
			Gap: &change.Gap{ID: change.GapID(p.Stream, change.UnknownVersion), From: change.UnknownVersion, To: p.ResourceVersion,
				Reason: "the log has lost its records; a snapshot of all objects follows, as for a new stream"}})
	}
	note := func() error { return s.parts.Store.Rewrite(ctx, s.number, state.Epoch, streams) }
	if lost.All {
		if err := note(); err != nil {
			return dependency.Tag(dependency.Checkpoint, err)
		}
		note = nil
	}
	return s.commitControls(ctx, state, log, controls, lost.Offsets, note)
}

// positionsOf gives the positions of this slot's streams whose resources are among those; nil means all.
func (s *slot) positionsOf(ctx context.Context, among func(change.Resource) bool) ([]change.Position, error) {
	all, err := s.parts.Store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool {
		return ownership.SlotOf(p.Stream, s.config.Slots) != s.number || among != nil && !among(change.ParseStream(p.Stream).Resource)
	}), err
}

// commitControls writes a batch of control records, does what they speak of (nil: nothing), and checkpoints the batch.
func (s *slot) commitControls(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, controls []change.Control,
	offsets change.Offsets, do func() error) error {
	c := &committer{slot: s.number, epoch: state.Epoch, seq: state.Seq, cluster: s.config.Cluster}
	batch := c.prepare(&batching.Batch{Batch: change.Batch{Controls: controls}})
	started := time.Now()
	written, err := log.Write(ctx, batch)
	if err != nil {
		return dependency.Tag(dependency.Sink, err)
	}
	took := time.Since(started)
	if do != nil {
		if err := do(); err != nil {
			return err
		}
	}
	moved := change.Offsets{}.Merge(offsets).Merge(written)
	if err := s.parts.Store.Commit(ctx, commitOf(batch, state.Epoch, moved, false)); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	state.Seq, state.Offsets = batch.Seq, state.Offsets.Merge(moved)
	s.parts.Observer.Committed(Committed{Batch: batch, Sink: took, Checkpoint: time.Since(started) - took})
	return nil
}
