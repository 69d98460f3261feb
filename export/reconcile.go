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

// reconcile makes the checkpoint match the opened log. The checkpoint is rebuilt if it does not know what the log has, and the
// streams whose records the log has lost are written again from a snapshot.
func (s *slot) reconcile(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, loss *sinks.LostTailError) error {
	if loss != nil && loss.All {
		return s.recordLoss(ctx, state, log, loss)
	}
	var more *sinks.LostTailError
	if state.New || s.damaged || loss != nil && !loss.TailRead {
		why, damaged := loss, loss == nil && !state.New
		switch {
		case damaged:
			why = &sinks.LostTailError{Reason: "the checkpoint is damaged"}
		case why == nil:
			why = &sinks.LostTailError{Reason: "the checkpoint knows of no batch"}
		}
		var err error
		if more, err = s.rebuildFrom(ctx, log, state, why, damaged); err != nil {
			return err
		}
	}
	for _, l := range []*sinks.LostTailError{loss, more} {
		if l == nil || l.Gone == nil {
			continue
		}
		if err := s.recordLoss(ctx, state, log, l); err != nil {
			return err
		}
	}
	return nil
}

// rebuildFrom rebuilds the checkpoint of this slot's streams, except those whose records the log has lost: they are written
// again. It returns what else the log turned out to have lost.
func (s *slot) rebuildFrom(ctx context.Context, log sinks.Log, state *checkpoint.SlotState,
	loss *sinks.LostTailError, damaged bool) (*sinks.LostTailError, error) {
	known := func(ctx context.Context) ([]change.Position, error) { return s.positionsOf(ctx, nil) }
	mine := func(stream change.StreamID) bool {
		return s.owns(stream) && !stream.IsSnapshot() && (loss.Gone == nil || !loss.Gone(change.ResourceOf(stream)))
	}
	return rebuild.Slot{Number: s.number, Mine: mine, Known: known, Bodies: s.config.Before, Redactor: s.bodyRedactors(),
		Damaged: damaged, Store: s.parts.Store, Observer: s.parts.Observer, Logger: s.logger}.Run(ctx, log, state, loss)
}

// recordLoss makes this slot's streams of the resources that the log has lost be written again from a snapshot. Gap records
// come first, so that no consumer takes the snapshot for new objects. As long as the offsets of the remaining partitions are
// not in the checkpoint, the next session finds the same loss and does this again. Only the loss of everything is not found
// again once a record is written, so in that case the checkpoint is changed first.
func (s *slot) recordLoss(ctx context.Context, state *checkpoint.SlotState, log sinks.Log, loss *sinks.LostTailError) error {
	gone := loss.Gone
	if loss.All {
		gone = nil
	}
	positions, err := s.positionsOf(ctx, gone)
	if err != nil {
		return err
	}
	if len(positions) == 0 && !loss.All {
		s.logger.Warn("the log has lost snapshots on demand, and nothing else", "reason", loss.Reason)
	} else {
		s.logger.Error("the log has lost records: writing the objects again from a snapshot", "reason", loss.Reason, "all", loss.All)
	}
	var controls []change.Control
	var streams []change.StreamID
	for _, p := range positions {
		streams = append(streams, p.Stream)
		if p.ResourceVersion == "" && !loss.All || p.Ended != "" {
			continue // its first list continues, or will start when the stream is selected again
		}
		controls = append(controls, lossGap(p, loss.Reason))
	}
	forget := func() error { return s.parts.Store.MarkLost(ctx, s.number, state.Epoch, streams) }
	if loss.All {
		if err := forget(); err != nil {
			return dependency.Tag(dependency.Checkpoint, err)
		}
		forget = nil
	}
	return s.commitControls(ctx, state, log, controls, loss.Offsets, forget)
}

// lossGap is the gap record of a stream whose records the log has lost.
func lossGap(p change.Position, cause string) change.Control {
	return change.Control{Type: change.ControlGap, Stream: p.Stream, ResourceVersion: p.ResourceVersion, Cause: cause,
		Gap: &change.Gap{ID: change.GapID(p.Stream, change.UnknownVersion), From: change.UnknownVersion, To: p.ResourceVersion,
			Reason: "the log has lost its records; a snapshot of all objects follows, as for a new stream"}}
}

// owns reports whether a stream hashes to this slot.
func (s *slot) owns(stream change.StreamID) bool {
	return ownership.SlotOf(stream, s.config.Slots) == s.number
}

// positionsOf returns the positions of this slot's streams, limited to the resources that among accepts; nil: no limit.
func (s *slot) positionsOf(ctx context.Context, among func(change.Resource) bool) ([]change.Position, error) {
	all, err := s.parts.Store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool {
		return !s.owns(p.Stream) || among != nil && !among(change.ResourceOf(p.Stream))
	}), err
}

// commitControls writes a batch of control records, calls do (nil: nothing), and checkpoints the batch.
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
	s.parts.Observer.Committed(Committed{Batch: batch, Sink: took})
	s.parts.Observer.Checkpointed(s.number, time.Since(started)-took)
	return nil
}
