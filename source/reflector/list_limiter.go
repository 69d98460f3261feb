package reflector

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// ListLimiter bound how many streams of a process list at once. When a few hundred begin together, each list waits for the
// log nearly all of the time, with an answer open on the server and buffers in memory; in turns they are done as soon.
//
// A turn lasts while a list is read, over all its pages, not over the pause after an error. Turns are given in the
// order of asking, so a stream that lists after a 410 is not passed by others; and who holds one waits for nothing but
// the server and the log, which need no turn. A turn is a courtesy: after a while a stream goes on without, since a
// server that hangs on some collections must not keep the others waiting. What is in a hurry does not ask for one: the
// reading of the past, which the server may compact (recovering.go).
type ListLimiter struct {
	free     *semaphore.Weighted
	patience time.Duration
}

// listPatience is how long a stream waits for its turn at most.
const listPatience = time.Minute

// NewListLimiter lets so many list at once.
func NewListLimiter(n int) *ListLimiter {
	return &ListLimiter{semaphore.NewWeighted(int64(n)), listPatience}
}

// acquire waits for a turn; done ends it. Without turns nobody waits.
func (t *ListLimiter) acquire(ctx context.Context) (done func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	if t.free.Acquire(waiting, 1) != nil {
		return func() {}, ctx.Err()
	}
	return func() { t.free.Release(1) }, nil
}
