// Package wait is how the program waits for a time to pass.
package wait

import (
	"context"
	"time"
)

// For waits for so long. It returns the context's error if the context ends before.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
