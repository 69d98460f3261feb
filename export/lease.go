package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
)

// whileRenewed does something that may take longer than a lease. Its error says what ended the context, if that ended: a
// database may answer a statement that was broken off with an error of its own.
func (s *slot) whileRenewed(parent context.Context, epoch int64, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	go s.renew(ctx, epoch, stop)
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// renew keeps the lease. It ends the session when the slot is not this session's any more, or when the lease may have run
// out.
func (s *slot) renew(ctx context.Context, epoch int64, fail context.CancelCauseFunc) {
	third := s.config.LeaseDuration / 3
	ticker := time.NewTicker(third)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		started := time.Now()
		try, cancel := context.WithTimeout(ctx, third)
		err := s.parts.Leases.Renew(try, s.number, epoch, s.config.LeaseDuration)
		cancel()
		switch {
		case err == nil:
			renewed = started
		case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrBehind), isUnavailable(err):
			fail(fmt.Errorf("renew the lease of slot %d: %w", s.number, err))
			return
		case time.Since(renewed) > s.config.LeaseDuration:
			fail(dependency.Tag(dependency.Checkpoint, fmt.Errorf("the lease of slot %d could not be renewed in time: %w", s.number, err)))
			return
		}
	}
}

// release ends the lease so that the next owner need not wait for it to run out.
func (s *slot) release(epoch int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.parts.Leases.Release(ctx, s.number, epoch)
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && !errors.Is(err, checkpoint.ErrBehind) {
		s.logger.Debug("the lease could not be released; it will run out", "error", err)
	}
}
