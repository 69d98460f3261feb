package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
)

// whileRenewed calls do, which may take longer than a lease, and renews the lease meanwhile. If the context ended, the error has
// its cause too: a database may return an unrelated error for a statement that was canceled.
func whileRenewed[T any](parent context.Context, s *slot, epoch int64, do func(context.Context) (T, error)) (T, error) {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	go s.renew(ctx, epoch, stop)
	result, err := do(ctx)
	if err != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return result, err
}

// renew renews the lease until the context ends. It calls fail when the slot has another owner, or when the lease may have
// expired.
func (s *slot) renew(ctx context.Context, epoch int64, fail context.CancelCauseFunc) {
	third := s.Config.LeaseDuration / 3
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
		renewal, cancel := context.WithTimeout(ctx, third)
		err := s.Parts.Store.Renew(renewal, s.Number, epoch, s.Config.LeaseDuration)
		cancel()
		switch {
		case err == nil:
			renewed = started
		case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrBehind), isUnavailable(err):
			fail(fmt.Errorf("renew the lease of slot %d: %w", s.Number, err))
			return
		case time.Since(renewed) > s.Config.LeaseDuration:
			fail(dependency.Tag(dependency.Checkpoint,
				fmt.Errorf("the lease of slot %d could not be renewed in time: %w", s.Number, err)))
			return
		}
	}
}

// release ends the lease, so that the next owner need not wait until it expires.
func (s *slot) release(epoch int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.Parts.Store.Release(ctx, s.Number, epoch)
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && !errors.Is(err, checkpoint.ErrBehind) {
		s.Logger.Debug("failed to release the lease; it will expire", "error", err)
	}
}
