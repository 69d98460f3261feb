package batching

import (
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// collector gathers items into batches. While one batch is being committed the next one grows; an idle slot hands
// a change over at once, and a busy one at most once a linger. A position alone (a bookmark) waits for company: for a
// change, or for the positions of other streams, since a batch of positions alone is handed over once an interval.
type collector struct {
	limits  Limits
	batches []*Batch  // all but the last are full
	last    time.Time // of the last hand-over
	bare    time.Time // of the last hand-over of positions alone
	size    int       // how many changes the last batch had
}

// Limits say when a batch is handed over.
type Limits struct {
	MaxChanges int           // at the latest with so many changes
	MaxBytes   int64         // or bytes
	Linger     time.Duration // at the earliest so long after the batch before
	Watermark  time.Duration // positions alone are handed over at most so often; 0: once a minute
}

// interval is the least time between two batches that hold nothing but positions.
func (l *Limits) interval() time.Duration {
	if l.Watermark > 0 {
		return l.Watermark
	}
	return time.Minute
}

// Batch is a batch with what it holds of the queue's room.
type Batch struct {
	change.Batch                                     // its Positions are for the caller to fill in
	Newest       map[change.StreamID]change.Position // of each stream
	Bytes        int64

	items  int // of the queue's room; a position alone takes none, since there is one for each stream at most
	weight int64
	since  time.Time // when its first item came
	urgent bool      // holds more than positions
}

// add puts an item into the last batch, or into a new one, and reports whether the first may now be due sooner.
func (c *collector) add(item *reflector.Item, weight int64) (news bool) {
	n := len(c.batches)
	fresh := n == 0 || c.full(c.batches[n-1])
	if fresh {
		c.batches = append(c.batches, c.newBatch())
	}
	b := c.batches[len(c.batches)-1]
	wasUrgent := b.urgent
	b.add(item, weight)
	return fresh || b.urgent != wasUrgent || c.full(b)
}

// newBatch is empty, with room for what the one before had: a busy stream's are alike.
func (c *collector) newBatch() *Batch {
	b := &Batch{Newest: map[change.StreamID]change.Position{}, since: time.Now()}
	if c.size > 1 {
		b.Changes = make([]change.Change, 0, c.size)
	}
	return b
}

func (c *collector) full(b *Batch) bool {
	return len(b.Changes) >= c.limits.MaxChanges || b.Bytes >= c.limits.MaxBytes
}

// take gives the first batch if it is due, or in any case, else how long it has to wait.
func (c *collector) take(now time.Time, anyway bool) (*Batch, time.Duration) {
	due, wait := c.due(now)
	if len(c.batches) == 0 || !due && !anyway {
		return nil, wait
	}
	b := c.batches[0]
	c.batches = slices.Delete(c.batches, 0, 1)
	c.last, c.size = now, len(b.Changes)
	if !b.urgent {
		c.bare = now
	}
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
	wait := c.last.Add(c.limits.Linger).Sub(now)
	if !b.urgent {
		interval := c.limits.interval()
		wait = max(b.since.Add(interval/10).Sub(now), c.bare.Add(interval).Sub(now))
	}
	return wait <= 0, max(wait, time.Millisecond)
}

// positionOnly reports whether an item is a position and nothing else.
func positionOnly(item *reflector.Item) bool {
	return item.Change == nil && item.Control == nil && item.Raw == nil
}

func (b *Batch) add(item *reflector.Item, weight int64) {
	if !positionOnly(item) {
		b.items++
		b.weight += weight
		b.urgent = true
	}
	if item.Change != nil {
		b.Changes = append(b.Changes, *item.Change)
		b.Bytes += int64(item.Change.Size())
	}
	if item.Control != nil {
		b.Controls = append(b.Controls, *item.Control)
	}
	if item.Raw != nil {
		b.Malformed = append(b.Malformed, *item.Raw)
		b.Bytes += int64(len(item.Raw.Bytes))
	}
	switch {
	case item.Position != nil:
		b.Newest[item.Stream] = *item.Position
	case item.Version != "":
		b.Newest[item.Stream] = change.Position{Stream: item.Stream, ResourceVersion: item.Version, Time: item.Time}
	}
}
