package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// openRaisingEpoch opens the log. If the log has seen a newer epoch than the checkpoint's, either the slot has a new owner,
// which the checkpoint then says, or the checkpoint was lost or restored. In the second case its epoch is raised.
func (s *slot) openRaisingEpoch(ctx context.Context, state *checkpoint.SlotState, open opener) (log sinks.Log, err error) {
	for {
		err = s.whileRenewed(ctx, state.Epoch, func(ctx context.Context) (err error) {
			log, err = open(ctx, state)
			return err
		})
		var newer *sinks.NewerEpochError
		if !errors.As(err, &newer) {
			return log, err
		}
		if err := s.raiseEpoch(ctx, state, newer.Epoch); err != nil {
			return nil, err
		}
	}
}

// opener opens a slot's log: slot.open or acquiredSlot.openUnused.
type opener func(context.Context, *checkpoint.SlotState) (sinks.Log, error)

func (s *slot) raiseEpoch(ctx context.Context, state *checkpoint.SlotState, logEpoch int64) error {
	raised, err := s.parts.Store.RaiseEpoch(ctx, s.number, state.Epoch, logEpoch)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	s.logger.Warn("the log has a newer epoch than the checkpoint: the checkpoint was lost or restored; raised its epoch",
		"epoch", state.Epoch, "log_epoch", logEpoch, "raised_to", raised)
	state.Epoch = raised
	return s.epochRaises.add(s.number, time.Now())
}

// A checkpoint is lost, or restored, once. An epoch that has to be raised more often than this means that another process
// raises the epoch of another checkpoint.
const (
	maxEpochRaises   = 3
	epochRaiseWindow = 10 * time.Minute
)

// ErrCompetingCheckpoint: another process exports the same cluster to the same log, with another checkpoint.
var ErrCompetingCheckpoint = errors.New("another process exports the same cluster to the same log with another " +
	"checkpoint, and each fences the other: stop one of the two, or give both the same KUBECDC_CHECKPOINT")

// epochRaises are the times when a slot's epoch was raised, over all its sessions.
type epochRaises struct{ times []time.Time }

func (r *epochRaises) add(slot int, now time.Time) error {
	r.times = append(r.times, now)
	if n := len(r.times); n > maxEpochRaises && now.Sub(r.times[n-1-maxEpochRaises]) < epochRaiseWindow {
		return fmt.Errorf("slot %d: %w", slot, ErrCompetingCheckpoint)
	}
	return nil
}

// isLogConflict reports that this process must not write to the log.
func isLogConflict(err error) bool {
	var other *sinks.OtherClusterError
	var encoded *sinks.OtherEncodingError
	var overlap *OverlapError
	var newer *change.NewerVersionError
	var moved *sinks.MovedError
	return errors.As(err, &other) || errors.As(err, &encoded) || errors.As(err, &moved) || errors.As(err, &overlap) ||
		errors.As(err, &newer) || errors.Is(err, ErrCompetingCheckpoint)
}
