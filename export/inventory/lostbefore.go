package inventory

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// lostBefore returns what the log has lost before a spool that is empty or gone, if that is not compared yet, or nil. While a spool
// continues the log, that waits.
func (s *Slot) lostBefore(ctx context.Context, seq uint64) (*sinks.LostTailError, error) {
	positions, err := s.positions(ctx)
	if err != nil {
		return nil, err
	}
	controls, err := s.Store.LastControls(ctx)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	gaps, last := map[change.StreamID]*change.Gap{}, map[change.StreamID]*change.Gap{}
	for i := range controls {
		if c := &controls[i]; c.Type == checkpoint.ControlLost {
			gaps[c.Stream] = c.Gap
		}
	}
	for _, p := range positions {
		if gap := gaps[p.Stream]; gap != nil && p.Ended == "" && p.ResourceVersion.Compare(change.UnknownVersion) > 0 { // else it begins with a list
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

// LostBefore is lostBefore as the error that ends a session.
func (s *Slot) LostBefore(ctx context.Context, seq uint64) error {
	loss, err := s.lostBefore(ctx, seq)
	if err == nil && loss != nil {
		return loss
	}
	return err
}
