package inventory

import (
	"context"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/rebuild"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// reconcile makes the checkpoint match the opened log. It rebuilds the checkpoint if the checkpoint lacks something in the log,
// or if the log has lost something that the checkpoint relies on. (An object whose deletion is lost lives in the log, but not in
// the checkpoint.) For streams that the checkpoint does not know, it stores what the log has. It returns the loss to record.
func (s *Slot) reconcile(ctx context.Context, state *checkpoint.SlotState, log sinks.Content, loss *sinks.LostTailError,
	before []change.Position) (*sinks.LostTailError, error) {
	loss = Concerning(loss, before)
	if loss != nil && loss.TailRead && s.Spooled != nil { // otherwise the log ends before the spool begins
		if spooled, err := s.Spooled(ctx, state.Seq, before); err != nil || spooled {
			return loss, err
		}
	}
	why, damaged, unread := loss, false, false
	switch {
	case loss != nil:
	case state.New:
		why = &sinks.LostTailError{Reason: "the checkpoint knows of no batch"}
	case s.damaged:
		why, damaged = &sinks.LostTailError{Reason: "the checkpoint is damaged"}, true
	case len(s.unread.streams) > 0:
		why, unread = s.unread.loss(), true
	default:
		return nil, nil
	}
	more, err := s.rebuildFrom(ctx, log, state, why, before, damaged)
	if err != nil {
		return nil, err
	}
	if unread {
		s.unread.done()
	}
	after, err := s.positions(ctx)
	if err != nil {
		return nil, err
	}
	if all := loss.Join(Concerning(more, after)).Join(lostPositions(why, before, after)); all != nil && all.Gone != nil {
		return all, nil
	}
	return nil, nil
}

// lostPositions returns the loss of positions that a rebuild has not found any more, or nil.
func lostPositions(why *sinks.LostTailError, before, after []change.Position) *sinks.LostTailError {
	lost := map[change.StreamID]bool{}
	for _, p := range after {
		lost[p.Stream] = p.ResourceVersion == change.UnknownVersion && slices.ContainsFunc(before, func(b change.Position) bool {
			return b.Stream == p.Stream && b.ResourceVersion.Compare(change.UnknownVersion) > 0
		})
	}
	return Concerning(&sinks.LostTailError{TailRead: true, Reason: why.Reason,
		Gone: func(s change.StreamID) bool { return lost[s] }}, after)
}

// Concerning returns a loss, or nil if it concerns no offset and none of the streams that have not ended.
func Concerning(loss *sinks.LostTailError, streams []change.Position) *sinks.LostTailError {
	if loss == nil || !loss.TailRead || loss.Gone == nil || len(loss.Offsets) > 0 ||
		slices.ContainsFunc(streams, func(p change.Position) bool { return p.Ended == "" && loss.Gone(p.Stream) }) {
		return loss
	}
	return nil
}

// positions returns the positions of the slot's streams.
func (s *Slot) positions(ctx context.Context) ([]change.Position, error) {
	all, err := s.Store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool { return !s.Owns(p.Stream) }),
		dependency.Tag(dependency.Checkpoint, err)
}

// rebuildFrom rebuilds the checkpoint of this slot's streams from the log. If the log has lost only the records of some
// resources, it rebuilds only their streams. It returns what else the log has lost.
func (s *Slot) rebuildFrom(ctx context.Context, log sinks.Content, state *checkpoint.SlotState, loss *sinks.LostTailError,
	known []change.Position, damaged bool) (*sinks.LostTailError, error) {
	partial := loss.TailRead && loss.Gone != nil && !state.New && !s.damaged
	mine := func(stream change.StreamID) bool {
		return s.Owns(stream) && !stream.IsSnapshot() && (!partial || loss.Gone(stream))
	}
	return rebuild.Slot{Number: s.Settings.Slot, Mine: mine, Partial: partial, Unknown: loss.Reason == "", Known: known,
		Bodies:   s.Bodies,
		Redactor: s.Redactor, Damaged: damaged, Store: s.Store, Delayed: s.State.Delayed, Logger: s.Logger}.Run(ctx, log, state,
		loss)
}
