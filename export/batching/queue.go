// Package batching gathers what the streams of a slot read into batches, and says when each is due. It is all memory and
// clock: it knows no API server, sink or checkpoint, and what becomes of a batch it learns from Done alone.
package batching

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"kubecdc/internal/failpoint"
	"kubecdc/source/reflector"
)

// Queue stands between the streams of a slot and its loop: streams add to the last batch, the loop takes the first
// when it is due. It is bounded in items and in bytes: when the log is slow the streams stop reading, and the watch is
// behind, not the memory.
type Queue struct {
	items *semaphore.Weighted // how many wait to be taken
	bytes *semaphore.Weighted
	max   int64
	held  [2]atomic.Int64 // items and bytes that were sent and not yet given back

	mu        sync.Mutex
	collector collector
	news      chan struct{} // the first batch may be due sooner than it was
}

// New makes a queue with room for so many items and bytes.
func New(maxItems int, maxBytes int64, limits Limits) *Queue {
	return &Queue{items: semaphore.NewWeighted(int64(maxItems)), bytes: semaphore.NewWeighted(maxBytes), max: maxBytes,
		collector: collector{limits: limits}, news: make(chan struct{}, 1)}
}

// Send implements reflector.Output. The bytes are held until Done is called, after the commit. A position alone needs no
// room: it takes the place of the stream's one before, and may wait for long.
func (q *Queue) Send(ctx context.Context, item reflector.Item) error {
	failpoint.Hit(failpoint.Received)
	weight := int64(0)
	if !positionOnly(&item) {
		weight = q.weight(&item)
		if err := q.makeRoom(ctx, weight); err != nil {
			return err
		}
	}
	q.mu.Lock()
	news := q.collector.add(&item, weight)
	q.mu.Unlock()
	if news {
		select {
		case q.news <- struct{}{}:
		default:
		}
	}
	return nil
}

// makeRoom waits until there is room for an item.
func (q *Queue) makeRoom(ctx context.Context, weight int64) error {
	if err := q.items.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := q.bytes.Acquire(ctx, weight); err != nil {
		q.items.Release(1)
		return err
	}
	q.held[0].Add(1)
	q.held[1].Add(weight)
	return nil
}

// Next waits for a batch and takes it. After stop, when nothing is sent any more, it gives what is left, then nil; nil
// also when the context ends.
func (q *Queue) Next(ctx context.Context, stop <-chan struct{}) *Batch {
	stopped := false
	for {
		b, wait := q.take(stopped)
		if b != nil || stopped {
			return b
		}
		timer := time.NewTimer(wait)
		select {
		case <-q.news:
		case <-timer.C:
		case <-stop:
			stopped = true
		case <-ctx.Done():
			return nil
		}
		timer.Stop()
	}
}

// take gives the first batch, if it is due, else how long it has to wait.
func (q *Queue) take(now bool) (*Batch, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, wait := q.collector.take(time.Now(), now)
	if b != nil {
		q.items.Release(int64(b.items))
	}
	return b, wait
}

// Done gives back what a batch held.
func (q *Queue) Done(b *Batch) {
	q.held[0].Add(-int64(b.items))
	q.held[1].Add(-b.weight)
	q.bytes.Release(b.weight)
}

// Fill is what was read and is not yet durable.
func (q *Queue) Fill() (items, bytes int64) { return q.held[0].Load(), q.held[1].Load() }

// weight is the item's size; one that is larger than the whole buffer passes alone.
func (q *Queue) weight(item *reflector.Item) int64 {
	size := int64(100)
	if item.Change != nil {
		size += int64(item.Change.Size())
	}
	if item.Raw != nil {
		size += int64(len(item.Raw.Bytes))
	}
	return min(size, q.max)
}
