package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
	"kubecdc/sinks"
)

// openRaisingEpoch opens the log. Where that has seen a newer epoch than the checkpoint gives, either another owner has come
// meanwhile, and the checkpoint says so, or the checkpoint is not the one that the log was written with: it was lost, or
// restored. Then its epoch is raised.
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
		if err := s.raise(ctx, state, newer.Epoch); err != nil {
			return nil, err
		}
	}
}

// opener is slot.open, or another way to open a slot's log.
type opener func(context.Context, *checkpoint.SlotState) (sinks.Log, error)

func (s *slot) raise(ctx context.Context, state *checkpoint.SlotState, seen int64) error {
	raised, err := s.parts.Store.RaiseEpoch(ctx, s.number, state.Epoch, seen)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	s.logger.Warn("the log was written with a newer epoch than this checkpoint gives: the checkpoint was lost or restored",
		"epoch", state.Epoch, "log_epoch", seen, "raised_to", raised)
	state.Epoch = raised
	return s.rivals.note(s.number, time.Now())
}

// A checkpoint is lost, or restored, once. When its epoch has to be raised again and again, another process raises that of
// a checkpoint of its own.
const (
	raisesAtMost = 3
	raisesWithin = 10 * time.Minute
)

// ErrRival: another process exports the same cluster to the same log, with another checkpoint.
var ErrRival = errors.New("another process exports the same cluster to the same log with another checkpoint, and each fences the " +
	"other: stop one of the two, or give them the same KUBECDC_CHECKPOINT")

// rivals notes when a slot's epoch was raised, over all its sessions.
type rivals struct{ raised []time.Time }

func (r *rivals) note(slot int, now time.Time) error {
	r.raised = append(r.raised, now)
	if n := len(r.raised); n > raisesAtMost && now.Sub(r.raised[n-1-raisesAtMost]) < raisesWithin {
		return fmt.Errorf("slot %d: %w", slot, ErrRival)
	}
	return nil
}

// isLogConflict: the log is not to be written by this process.
func isLogConflict(err error) bool {
	var other *sinks.OtherClusterError
	return errors.As(err, &other) || errors.Is(err, ErrRival)
}
