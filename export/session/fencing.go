package session

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// verifyFencing asks the checkpoint who owns the slot, after the sink or the checkpoint has refused this session as fenced. The
// sink may refuse a session although the slot has no other owner. For example, Kafka fences the producer of a transaction that is
// open for longer than its timeout. Also, the newer epoch in the checkpoint may be this process's own. A request to acquire the
// slot may time out here and still reach the database later. If the checkpoint can't be asked, the next session finds out when it
// acquires the slot.
//
// It also asks after a damaged body: what a new owner has stored does not fit what this session remembers, but is not damaged.
func (s *slot) verifyFencing(ctx context.Context, epoch int64, err error) error {
	damaged := errors.Is(err, checkpoint.ErrDamaged)
	if !damaged && !errors.Is(err, sinks.ErrInvalidWriter) && !isFenced(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Config.CheckpointTimeout())
	defer cancel()
	if !isFenced(err) {
		switch answer := s.Parts.Store.Check(ctx, s.Number, epoch, 0); {
		case damaged && answer == nil:
			return err
		case damaged:
			err = fmt.Errorf("%w (what was read of the checkpoint was another owner's: %v)", answer, err)
		case answer == nil:
			return fmt.Errorf("%w; according to the checkpoint no other process has taken over slot %d", err, s.Number)
		case !isFenced(answer):
			return fmt.Errorf("%w; the checkpoint does not say who owns slot %d: %w", err, s.Number, answer)
		default:
			err = errors.Join(answer, err)
		}
	}
	if !isFenced(err) {
		return err
	}
	replicas, askErr := s.Parts.Store.Heartbeat(ctx, s.Config.Owner, s.Config.LeaseDuration)
	if askErr == nil && replicas.Slots[s.Number] == s.Config.Owner {
		return dependency.Tag(dependency.Checkpoint,
			fmt.Errorf("%v; but this process itself has acquired slot %d again, by a delayed request", err, s.Number))
	}
	return err
}
