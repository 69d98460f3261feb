// Package batching gathers what a slot's streams read into batches, and decides when each batch is due. A prepared batch
// describes its effect on each object. The package works only with memory and time: it knows no API server, sink or checkpoint.
package batching

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
)

// Queue is the bounded buffer between a slot's streams and its commit loop. Its capacity is limited in items and in bytes. When
// the sink is slow, Send blocks and the streams stop reading. So the watch falls behind, and memory does not grow.
type Queue struct {
	itemCapacity *semaphore.Weighted // held until the batch is popped
	byteCapacity *semaphore.Weighted // held until the batch is durable
	maxBytes     int64

	pendingItems atomic.Int64 // sent, but not yet durable
	pendingBytes atomic.Int64

	mu          sync.Mutex
	accumulator accumulator
	inFlight    []*Batch      // popped, but not yet durable
	wake        chan struct{} // the first batch may be due sooner than Next expects
	blocked     atomic.Bool   // an item waits for capacity in bytes
}

// New returns a queue with capacity for maxItems items and maxBytes bytes.
func New(maxItems int, maxBytes int64, limits Limits) *Queue {
	return &Queue{itemCapacity: semaphore.NewWeighted(int64(maxItems)), byteCapacity: semaphore.NewWeighted(maxBytes),
		maxBytes: maxBytes, accumulator: accumulator{limits: limits}, wake: make(chan struct{}, 1)}
}

// Send implements reflector.Output. The item's bytes occupy capacity until Done is called, after the commit. A position without a
// record occupies none, since it replaces the stream's previous one.
func (q *Queue) Send(ctx context.Context, item change.Item) error {
	failpoint.Hit(failpoint.Received)
	weight := int64(0)
	if !positionOnly(&item) {
		weight = q.weight(&item)
		if err := q.acquire(ctx, weight); err != nil {
			return err
		}
	}
	q.mu.Lock()
	maybeSooner := q.accumulator.add(&item, weight)
	q.mu.Unlock()
	if maybeSooner {
		q.wakeUp()
	}
	return nil
}

func (q *Queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// acquire waits until there is capacity for an item.
func (q *Queue) acquire(ctx context.Context, weight int64) error {
	if err := q.itemCapacity.Acquire(ctx, 1); err != nil {
		return err
	}
	if !q.byteCapacity.TryAcquire(weight) {
		q.blocked.Store(true)
		q.wakeUp()
		if err := q.byteCapacity.Acquire(ctx, weight); err != nil {
			q.itemCapacity.Release(1)
			return err
		}
	}
	q.pendingItems.Add(1)
	q.pendingBytes.Add(weight)
	return nil
}

// Next waits for a batch that is due, and removes it from the queue. After stop is closed it returns what is left, due or not,
// then nil. It also returns nil when the context ends.
func (q *Queue) Next(ctx context.Context, stop <-chan struct{}) *Batch {
	return q.NextDuring(ctx, stop, nil)
}

// NextDuring is Next while the batch before is being written, until written is closed. Then it returns nil. It returns a batch
// that can't grow, so no change waits for a batch that could already have been written with the next one.
func (q *Queue) NextDuring(ctx context.Context, stop, written <-chan struct{}) *Batch {
	stopped := false
	for {
		b, wait := q.pop(stopped, written != nil)
		if b != nil || stopped {
			return b
		}
		timer := time.NewTimer(wait)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-written:
			timer.Stop()
			return nil
		case <-stop:
			stopped = true
		case <-ctx.Done():
			return nil
		}
		timer.Stop()
	}
}

func (q *Queue) pop(force, onlyFull bool) (*Batch, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := &q.accumulator; onlyFull && !force && !q.blocked.Load() && (len(a.batches) == 0 || !a.full(a.batches[0])) {
		return nil, time.Hour
	}
	b, wait := q.accumulator.pop(time.Now(), force || onlyFull)
	if b != nil {
		q.itemCapacity.Release(int64(b.items))
		q.inFlight = append(q.inFlight, b)
	}
	return b, wait
}

// Done releases the capacity of the first batch that is not done, and the memory of its changes, which must not be used any more.
func (q *Queue) Done(b *Batch) {
	for i := range b.Changes {
		b.Changes[i].Slab.Release()
	}
	clear(b.Changes)
	q.mu.Lock()
	q.accumulator.spare = append(q.accumulator.spare, b.Changes[:0])
	q.inFlight = slices.Delete(q.inFlight, 0, 1)
	q.mu.Unlock()
	q.blocked.Store(false)
	q.pendingItems.Add(-int64(b.items))
	q.pendingBytes.Add(-b.weight)
	q.byteCapacity.Release(b.weight)
}

// InFlight returns the batches that were popped and are not done, in their order.
func (q *Queue) InFlight() []*Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.inFlight)
}

// Pending returns how many items and bytes were read and are not yet durable.
func (q *Queue) Pending() (items, bytes int64) { return q.pendingItems.Load(), q.pendingBytes.Load() }

// Since returns, for each stream with records that are not yet durable, the time of the first such record.
func (q *Queue) Since() map[change.StreamID]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[change.StreamID]time.Time{}
	for _, b := range slices.Concat(q.inFlight, q.accumulator.batches) {
		for id, since := range b.since {
			if _, ok := all[id]; !ok {
				all[id] = since
			}
		}
	}
	return all
}

// weight returns the item's size in bytes, limited to the queue's capacity. So a larger item passes when the queue is empty.
func (q *Queue) weight(item *change.Item) int64 {
	size := int64(100)
	if item.Change != nil {
		size += int64(item.Change.Size())
	}
	if item.Raw != nil {
		size += int64(len(item.Raw.Bytes))
	}
	return min(size, q.maxBytes)
}
