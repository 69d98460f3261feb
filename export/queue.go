package export

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"kubecdc/internal/failpoint"
	"kubecdc/source"
)

// queue stands between the streams of a slot and its loop. It is bounded in items and in bytes: when the log is
// slow the streams stop reading, and the watch is behind, not the memory.
type queue struct {
	items chan source.Item
	bytes *semaphore.Weighted
	max   int64
	held  [2]atomic.Int64 // items and bytes that were sent and not yet given back
}

func newQueue(maxItems int, maxBytes int64) *queue {
	return &queue{items: make(chan source.Item, maxItems), bytes: semaphore.NewWeighted(maxBytes), max: maxBytes}
}

// Send implements source.Output. The bytes are held until done is called, after the commit.
func (q *queue) Send(ctx context.Context, item source.Item) error {
	failpoint.Hit(failpoint.Received)
	size := q.weight(item)
	if err := q.bytes.Acquire(ctx, size); err != nil {
		return err
	}
	select {
	case q.items <- item:
		q.held[0].Add(1)
		q.held[1].Add(size)
		return nil
	case <-ctx.Done():
		q.bytes.Release(size)
		return ctx.Err()
	}
}

// done gives back what a batch held.
func (q *queue) done(b *collected) {
	q.held[0].Add(-int64(b.items))
	q.held[1].Add(-b.weight)
	q.bytes.Release(b.weight)
}

// fill is what was read and is not yet durable.
func (q *queue) fill() (items, bytes int64) { return q.held[0].Load(), q.held[1].Load() }

// weight is the item's size; one that is larger than the whole buffer passes alone.
func (q *queue) weight(item source.Item) int64 {
	size := int64(100)
	if item.Change != nil {
		size += int64(item.Change.Size())
	}
	if item.Raw != nil {
		size += int64(len(item.Raw.Bytes))
	}
	return min(size, q.max)
}
