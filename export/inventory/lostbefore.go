package inventory

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// LostBefore returns what the log has lost before a spool that is empty or gone. It returns nil if that loss is already compared,
// or as long as a spool continues the log. The positions are the slot's, as stored.
func (s *Slot) LostBefore(ctx context.Context, seq uint64, positions []change.Position) (*sinks.LostTailError, error) {
	lost, err := checkpoint.Losses(ctx, s.Store)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	last := map[change.StreamID]*change.Gap{}
	for _, p := range positions {
		// else it begins with a list
		if gap := lost[p.Stream]; gap != nil && p.Ended == "" && p.ResourceVersion.Compare(change.UnknownVersion) > 0 {
			last[p.Stream] = gap
		}
	}
	loss := sinks.LostBeforeSpool(last)
	if loss == nil || s.Spooled == nil {
		return loss, nil
	}
	if spooled, err := s.Spooled(ctx, seq, positions); err != nil || spooled {
		return nil, err
	}
	return loss, nil
}
