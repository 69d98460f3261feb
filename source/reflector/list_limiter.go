package reflector

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ListLimiter bounds how many streams of a process list at once. If a few hundred streams list together, each waits for the log
// nearly all of the time. During that time it holds an open response on the server, and buffers in memory. If they list one after
// another, they all end as early.
//
// A stream holds a place while it reads the pages of a list, and not while it pauses after an error. Places are given first come,
// first served. A list that has held its place for longTime gives it to the next one and goes on. So a server that hangs on some
// collections does not hold up the others. Recovery needs no place: the server may compact what it reads (recovering.go).
type ListLimiter struct{ places *semaphore.Weighted }

// longTime is how long a list holds its place at most.
const longTime = time.Minute

// NewListLimiter lets n streams list at once.
func NewListLimiter(n int) *ListLimiter { return &ListLimiter{semaphore.NewWeighted(int64(n))} }

// acquire waits for a place, which done gives up. A nil limiter has a place for everyone.
func (l *ListLimiter) acquire(ctx context.Context) (done func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	if err := l.places.Acquire(ctx, 1); err != nil {
		return func() {}, err
	}
	release := sync.OnceFunc(func() { l.places.Release(1) })
	long := time.AfterFunc(longTime, release)
	return func() { long.Stop(); release() }, nil
}
