package export

import (
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/source"
)

// collector gathers items into batches. While one batch is being committed the next one grows; an idle slot hands
// a change over at once, a busy one at most once a linger, and a bare position (a bookmark) waits for company.
type collector struct {
	limits  Limits
	batches []*collected // all but the last are full
	last    time.Time    // of the last hand-over
	size    int          // how many changes that batch had
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

// add puts an item into the last batch, or into a new one, and reports whether the first may now be due sooner.
func (c *collector) add(item *source.Item, weight int64) (news bool) {
	if n := len(c.batches); n == 0 || c.full(c.batches[n-1]) {
		c.batches = append(c.batches, c.newBatch())
	}
	b := c.batches[len(c.batches)-1]
	wasUrgent := b.urgent
	b.add(item, weight)
	return b.items == 1 || b.urgent != wasUrgent || c.full(b)
}

// newBatch is empty, with room for what the one before had: a busy stream's are alike.
func (c *collector) newBatch() *collected {
	b := &collected{positions: map[string]change.Position{}, since: time.Now()}
	if c.size > 1 {
		b.batch.Changes = make([]change.Change, 0, c.size)
	}
	return b
}

func (c *collector) full(b *collected) bool {
	return len(b.batch.Changes) >= c.limits.MaxChanges || b.bytes >= c.limits.MaxBytes
}

// take gives the first batch if it is due, or in any case, else how long it has to wait.
func (c *collector) take(now time.Time, anyway bool) (*collected, time.Duration) {
	due, wait := c.due(now)
	if len(c.batches) == 0 || !due && !anyway {
		return nil, wait
	}
	b := c.batches[0]
	c.batches = slices.Delete(c.batches, 0, 1)
	c.last, c.size = now, len(b.batch.Changes)
	return b, 0
}

// due reports whether the first batch may go now, else how long it has to wait.
func (c *collector) due(now time.Time) (bool, time.Duration) {
	if len(c.batches) == 0 {
		return false, time.Hour
	}
	b := c.batches[0]
	if c.full(b) {
		return true, 0
	}
	at := b.since.Add(c.limits.Watermark / 10)
	if b.urgent {
		at = c.last.Add(c.limits.Linger)
	}
	wait := at.Sub(now)
	return wait <= 0, max(wait, time.Millisecond)
}

func (b *collected) add(item *source.Item, weight int64) {
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
		b.positions[item.Stream] = change.Position{Stream: item.Stream, ResourceVersion: item.Version, Time: item.Time}
	}
}
