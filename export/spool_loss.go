package export

import (
	"context"
	"errors"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// The log may have lost records before a spool begins. Only the inventory has the state between both. So the inventory is not
// rebuilt until the sink has the spool, whose first batch has the gap records. Then the spool is still there, and says what is to
// be compared.

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
func (s *slot) loseBeforeSpool(ctx context.Context, state *checkpoint.SlotState, o *opened) error {
	have, err := s.positionsOf(ctx, nil) // after a rebuild, which differ from o.before
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	continues, err := s.spooledAfter(ctx, state.Seq, have)
	switch {
	case err != nil:
		return err
	case continues:
		return s.forwardBehind(ctx, o)
	case state.Seq == s.spool.Last && len(s.spool.Lost) > 0:
		if err = s.recordLoss(ctx, state, o); err == nil {
			err = s.removeSpool(s.spool.Last)
		}
	default:
		if err = s.recordLoss(ctx, state, o); err == nil {
			err = s.giveUpSpool(o.loss)
		}
	}
	return err
}

// forwardBehind makes the gap records for the first batch that is forwarded.
func (s *slot) forwardBehind(ctx context.Context, o *opened) error {
	var lost []change.StreamID
	for _, p := range o.before {
		if o.loss.Gone == nil || o.loss.Gone(p.Stream) {
			lost = append(lost, p.Stream)
			if p.ResourceVersion != "" && p.Ended == "" {
				o.behind = append(o.behind, lossGap(p, o.loss.Reason))
			}
		}
	}
	s.logger.Warn("the log has lost records before the spool: the spool is forwarded, and then the log is compared with the API server",
		"streams", len(lost), "reason", o.loss.Reason)
	return s.spool.MarkLost(ctx, lost)
}

// lostBefore is the loss of a spool that was forwarded. The next session rebuilds the inventory, and records the loss up to
// there.
func lostBefore(sp *spool.Spool) error {
	return &sinks.LostTailError{TailRead: true, Reason: "records were lost before the sink was away",
		Gone: func(s change.StreamID) bool { return slices.Contains(sp.Lost, s) }}
}
