// Package wait pauses, for as long as a context lives.
package wait

import (
	"context"
	"time"
)

// For waits for d. If the context ends first, it returns the context's error then.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Every calls do at once, and again with a pause in between, until the context ends.
func Every(ctx context.Context, pause time.Duration, do func()) {
	for ok := true; ok; ok = For(ctx, pause) == nil {
		do()
	}
}
