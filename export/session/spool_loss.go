package session

import (
	"context"
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/commit"
	"kubecdc/internal/dependency"
	"kubecdc/sinks/spool"
)

// The log may have lost records before a spool begins. Only the inventory has the state between both. So the inventory is not
// rebuilt until the sink has the spool, whose first batch has gap records that say so (change.LostBeforeSpool). The checkpoint
// and the log have them. So the next owner knows that the log is still to be compared, also if the spool is gone.

// spooledAfter reports whether the session's spool continues the log after a batch, with these positions.
func (s *slot) spooledAfter(ctx context.Context, seq uint64, positions []change.Position) (bool, error) {
	if s.spool == nil || seq+1 < s.spool.First || seq >= s.spool.Last {
		return false, nil
	}
	err := spoolContinues(ctx, s.spool, seq, positions)
	if errors.Is(err, spool.ErrUnusable) {
		return false, nil
	}
	return err == nil, err
}

// loseBeforeSpool records a loss that was found when the log was opened, while the slot has a spool.
func (s *slot) loseBeforeSpool(ctx context.Context, state *checkpoint.SlotState, o *commit.Opened) error {
	have, err := s.Positions(ctx, nil) // after a rebuild these differ from o.Had
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	continues, err := s.spooledAfter(ctx, state.Seq, have)
	switch {
	case err != nil:
		return err
	case continues:
		s.forwardBehind(o)
	case state.Seq == s.spool.Last:
		if err = s.recordLoss(ctx, state, o); err == nil {
			err = s.removeSpool(s.spool.Last)
		}
	default:
		if err = s.recordLoss(ctx, state, o); err == nil {
			err = s.giveUpSpool(o.Loss)
		}
	}
	return err
}

// lostBeforeSpool returns what the log has lost before a spool that is no more, or nil. The next session rebuilds the inventory,
// and records the loss.
func (s *slot) lostBeforeSpool(ctx context.Context, o *commit.Opened) error {
	if o.Behind == nil { // else nothing was forwarded
		positions, err := s.Positions(ctx, nil)
		if err == nil {
			o.Loss, err = s.inventory.LostBefore(ctx, o.Seq(), positions)
		}
		if err != nil || o.Loss == nil {
			return dependency.Tag(dependency.Checkpoint, err)
		}
	}
	return o.Loss
}

// forwardBehind makes the gap records for the first batch that is forwarded.
func (s *slot) forwardBehind(o *commit.Opened) {
	lost := 0
	for _, p := range o.Had {
		if o.Loss.Gone == nil || o.Loss.Gone(p.Stream) {
			lost++
			if p.ResourceVersion != "" && p.Ended == "" {
				o.Behind = append(o.Behind, lossGap(p, change.LostBeforeSpool, o.Loss.Reason))
			}
		}
	}
	s.Logger.Warn("the log has lost records before the spool: the spool is forwarded, and then the log is compared with the "+
		"API server",
		"streams", lost, "reason", o.Loss.Reason)
}
