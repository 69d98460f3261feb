package reflector

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// ListLimiter bounds how many streams of a process list at once. If a few hundred streams list together, each waits for the log nearly
// all of the time. Meanwhile it holds an open response on the server, and buffers in memory. One after another they end as early.
//
// A stream holds a place while it reads the pages of a list, and not while it pauses after an error. Places are given first
// come, first served. A stream that has waited for listTimeout lists without a place, since a server that hangs on some
// collections must not hold up the others. Recovery needs no place: the server may compact what it reads (recovering.go).
type ListLimiter struct {
	places  *semaphore.Weighted
	timeout time.Duration
}

// listTimeout is how long a stream waits for a place at most.
const listTimeout = time.Minute

// NewListLimiter lets n streams list at once.
func NewListLimiter(n int) *ListLimiter {
	return &ListLimiter{semaphore.NewWeighted(int64(n)), listTimeout}
}

// acquire waits for a place, which done gives up. A nil limiter has a place for everyone.
func (l *ListLimiter) acquire(ctx context.Context) (done func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if l.places.Acquire(waiting, 1) != nil {
		return func() {}, ctx.Err()
	}
	return func() { l.places.Release(1) }, nil
}
