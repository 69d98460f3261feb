package export

import (
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/source"
)

// collector gathers items into batches. While one batch is being committed the next one grows; an idle slot hands
// a change over at once, a busy one at most once a linger, and a bare position (a bookmark) waits for company.
type collector struct {
	queue   *queue
	out     chan<- *collected
	limits  Limits
	current *collected
	last    time.Time // of the last hand-over
}

// Limits say when a batch is handed over.
type Limits struct {
	MaxChanges int           // at the latest with so many changes
	MaxBytes   int64         // or bytes
	Linger     time.Duration // at the earliest so long after the batch before
	Watermark  time.Duration // a quiet stream's position is told so often; without changes it waits for company a tenth of that
}

// collected is a batch with what it holds of the queue.
type collected struct {
	batch     change.Batch
	positions map[string]change.Position
	items     int
	weight    int64
	bytes     int64
	since     time.Time // when its first item came
	urgent    bool      // holds more than positions
}

func newCollector(q *queue, out chan<- *collected, limits Limits) *collector {
	return &collector{queue: q, out: out, limits: limits, current: newCollected()}
}

func newCollected() *collected {
	return &collected{positions: map[string]change.Position{}}
}

// run collects until stop is closed; what it then holds is handed over as the last batch.
func (c *collector) run(ctx context.Context, stop <-chan struct{}) {
	defer close(c.out)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var in <-chan source.Item
		if !c.full() {
			in = c.queue.items
		}
		var out chan<- *collected
		due, wait := c.due(time.Now())
		if due {
			out = c.out
		} else {
			timer.Reset(wait)
		}
		select {
		case item := <-in:
			c.current.add(item, c.queue.weight(item))
		case out <- c.current:
			c.current, c.last = newCollected(), time.Now()
		case <-timer.C:
		case <-stop:
			c.flush(ctx)
			return
		}
	}
}

func (c *collector) flush(ctx context.Context) {
	if c.current.empty() {
		return
	}
	select {
	case c.out <- c.current:
	case <-ctx.Done():
	}
}

func (c *collector) full() bool {
	return len(c.current.batch.Changes) >= c.limits.MaxChanges || c.current.bytes >= c.limits.MaxBytes
}

// due reports whether the batch may go now, else how long it has to wait.
func (c *collector) due(now time.Time) (bool, time.Duration) {
	if c.current.empty() {
		return false, time.Hour
	}
	if c.full() {
		return true, 0
	}
	at := c.current.since.Add(c.limits.Watermark / 10)
	if c.current.urgent {
		at = c.last.Add(c.limits.Linger)
	}
	wait := at.Sub(now)
	return wait <= 0, max(wait, time.Millisecond)
}

func (b *collected) empty() bool { return b.since.IsZero() }

func (b *collected) add(item source.Item, weight int64) {
	if b.empty() {
		b.since = time.Now()
	}
	b.items++
	b.weight += weight
	if item.Change != nil {
		b.batch.Changes = append(b.batch.Changes, *item.Change)
		b.bytes += int64(item.Change.Size())
		b.urgent = true
	}
	if item.Control != nil {
		b.batch.Controls = append(b.batch.Controls, *item.Control)
		b.urgent = true
	}
	if item.Raw != nil {
		b.batch.Malformed = append(b.batch.Malformed, *item.Raw)
		b.bytes += int64(len(item.Raw.Bytes))
		b.urgent = true
	}
	if item.Version != "" {
		b.positions[item.Stream] = change.Position{Stream: item.Stream, ResourceVersion: item.Version, Floors: item.Floors, Time: item.Time}
	}
}
