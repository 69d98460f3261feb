package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/commit"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// openRaisingEpoch opens the log. The log may have seen a newer epoch than the checkpoint's. Then either the slot has a new
// owner, as the checkpoint says in that case, or the checkpoint was lost or restored. In the second case openRaisingEpoch raises
// the checkpoint's epoch.
func (s *slot) openRaisingEpoch(ctx context.Context, state *checkpoint.SlotState, open opener) (*commit.Opened, error) {
	for {
		o, err := whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*commit.Opened, error) { return open(ctx, state) })
		newer, isNewer := errors.AsType[*sinks.NewerEpochError](err)
		if !isNewer {
			return o, err
		}
		if err := s.raiseEpoch(ctx, state, newer.Epoch); err != nil {
			return nil, err
		}
	}
}

// opener opens a slot's log: slot.open or acquiredSlot.openUnused.
type opener func(context.Context, *checkpoint.SlotState) (*commit.Opened, error)

func (s *slot) raiseEpoch(ctx context.Context, state *checkpoint.SlotState, logEpoch int64) error {
	raised, err := s.Parts.Store.RaiseEpoch(ctx, s.Number, state.Epoch, logEpoch)
	if err != nil {
		return dependency.TagCheckpoint(err)
	}
	s.Logger.Warn("the log has a newer epoch than the checkpoint: the checkpoint was lost or restored; raised its epoch",
		"epoch", state.Epoch, "log_epoch", logEpoch, "raised_to", raised)
	state.Epoch = raised
	s.epochRaises = append(s.epochRaises, time.Now())
	if n := len(s.epochRaises); n > maxEpochRaises && time.Since(s.epochRaises[n-1-maxEpochRaises]) < epochRaiseWindow {
		return fmt.Errorf("slot %d: %w", s.Number, ErrCompetingCheckpoint)
	}
	return nil
}

// A checkpoint is lost or restored once. If the epoch has to be raised more often than this, another process is raising the epoch
// of another checkpoint.
const (
	maxEpochRaises   = 3
	epochRaiseWindow = 10 * time.Minute
)

// ErrCompetingCheckpoint: another process exports the same cluster to the same log, with another checkpoint.
var ErrCompetingCheckpoint = errors.New("another process exports the same cluster to the same log with another " +
	"checkpoint, and each fences the other: stop one of the two, or give both the same KUBECDC_CHECKPOINT")
