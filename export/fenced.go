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

// isFenced reports whether another process has taken the slot over. Only the checkpoint knows that, by its epoch.
func isFenced(err error) bool { return errors.Is(err, checkpoint.ErrFenced) }

// verify asks the checkpoint who owns the slot, where this session was refused as fenced, by the sink or by the checkpoint
// itself. A sink may do that without another owner: Kafka ends a transaction that is open for longer than its timeout,
// and refuses its producer from then on. And the higher epoch may be this process's own: a request that the network held
// up, and that was given up here, acquires the slot once more when it arrives. Where the checkpoint can't be asked, the
// next session finds out when it acquires the slot.
func (s *slot) verify(ctx context.Context, epoch int64, err error) error {
	if !errors.Is(err, sinks.ErrInvalidWriter) && !isFenced(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTimeout(s.config))
	defer cancel()
	if !isFenced(err) {
		switch told := s.parts.Store.Check(ctx, s.number, epoch, 0); {
		case told == nil:
			return fmt.Errorf("%w; by the checkpoint no other process has taken slot %d over", err, s.number)
		case !isFenced(told):
			return fmt.Errorf("%w; the checkpoint can't tell who owns slot %d: %w", err, s.number, told)
		default:
			err = errors.Join(told, err)
		}
	}
	if now, ask := s.parts.Leases.Heartbeat(ctx, s.config.Owner, s.config.LeaseDuration); ask == nil && now.Slots[s.number] == s.config.Owner {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("%v; but it is this process that has acquired slot %d once more, by a request that was held up", err, s.number))
	}
	return err
}

// checkpointTimeout bounds a call to the checkpoint that no renewed lease watches over. A connection that went silent
// without an end would hold it for as long as TCP does: a quarter of an hour.
func checkpointTimeout(c Config) time.Duration { return max(c.LeaseDuration, 10*time.Second) }
