package batching

import (
	"cmp"
	"context"
	"slices"
	"time"

	"kubecdc/change"
)

// accumulator gathers items into batches. The last batch grows while an earlier one is being committed. An idle slot's change is
// due at once, a busy slot's at most once per linger. A position without a record (a bookmark) waits for a record, or for the
// positions of other streams. A batch with only positions is due at most once per Limits.Watermark.
type accumulator struct {
	limits        Limits
	batches       []*Batch          // all but the last are full
	lastPop       time.Time         // when the last batch was popped
	lastPositions time.Time         // when the last batch with only positions was popped
	spare         [][]change.Change // empty memory of finished batches
}

// Limits decide when a batch is due.
type Limits struct {
	MaxChanges int           // a batch with this many changes is due at once
	MaxBytes   int64         // likewise with this many bytes
	Linger     time.Duration // minimum time between two batches that are not full
	Watermark  time.Duration // minimum time between two batches with only positions, or 0 for a minute
}

// Batch is a change.Batch together with the queue capacity that it occupies.
type Batch struct {
	change.Batch                                     // the caller fills in Positions
	Newest       map[change.StreamID]change.Position // newest position by stream
	Late         map[change.StreamID]Late            // streams that were read late
	Bytes        int64
	Durable      []func(context.Context) error // called when the batch is durable

	items      int // items that occupy capacity, which a position without a record does not
	weight     int64
	created    time.Time
	hasRecords bool                          // the batch has more than positions
	removes    bool                          // it has the end of a stream whose resource was removed
	since      map[change.StreamID]time.Time // when each stream's first record was read
	lastStream change.StreamID               // stream of the last record
}

// Late is when a stream was read for a batch, and since when its data may have waited.
type Late struct{ Since, Read time.Time }

// Waited returns the time since the batch was created.
func (b *Batch) Waited() time.Duration { return time.Since(b.created) }

// add puts an item into the last batch, or into a new one. It reports whether the first batch may be due sooner than before.
func (a *accumulator) add(item *change.Item, weight int64) (maybeSooner bool) {
	n := len(a.batches)
	isNew := n == 0 || a.full(a.batches[n-1])
	if isNew {
		a.batches = append(a.batches, a.newBatch())
	}
	b := a.batches[len(a.batches)-1]
	hadRecords := b.hasRecords
	b.add(item, weight)
	return isNew || b.hasRecords != hadRecords || a.full(b)
}

// newBatch returns an empty batch, in the memory of a finished one.
func (a *accumulator) newBatch() *Batch {
	b := &Batch{Newest: map[change.StreamID]change.Position{}, since: map[change.StreamID]time.Time{}, created: time.Now()}
	if last := len(a.spare) - 1; last >= 0 {
		b.Changes, a.spare = a.spare[last], a.spare[:last]
	}
	return b
}

// full reports whether a batch takes nothing more. A stream whose resource was removed begins again in a later batch: a batch has
// no order between its positions and its records.
func (a *accumulator) full(b *Batch) bool {
	return b.removes || len(b.Changes) >= a.limits.MaxChanges || b.Bytes >= a.limits.MaxBytes
}

// pop removes the first batch if it is due or force is set. Otherwise it returns how long to wait.
func (a *accumulator) pop(now time.Time, force bool) (*Batch, time.Duration) {
	due, wait := a.due(now)
	if len(a.batches) == 0 || !due && !force {
		return nil, wait
	}
	b := a.batches[0]
	a.batches = slices.Delete(a.batches, 0, 1)
	a.lastPop = now
	if !b.hasRecords {
		a.lastPositions = now
	}
	return b, 0
}

// due reports whether the first batch is due. Otherwise it returns how long to wait.
func (a *accumulator) due(now time.Time) (bool, time.Duration) {
	if len(a.batches) == 0 {
		return false, time.Hour
	}
	b := a.batches[0]
	if a.full(b) {
		return true, 0
	}
	wait := a.lastPop.Add(a.limits.Linger).Sub(now)
	if !b.hasRecords {
		interval := cmp.Or(a.limits.Watermark, time.Minute)
		wait = max(b.created.Add(interval/10).Sub(now), a.lastPositions.Add(interval).Sub(now))
	}
	return wait <= 0, max(wait, time.Millisecond)
}

// positionOnly reports whether the item has a position and no record.
func positionOnly(item *change.Item) bool {
	return item.Change == nil && item.Control == nil && item.Raw == nil && item.Durable == nil
}

func (b *Batch) add(item *change.Item, weight int64) {
	if !positionOnly(item) {
		b.items++
		b.weight += weight
		b.hasRecords = true
		b.addStream(item)
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
	if item.Durable != nil {
		b.Durable = append(b.Durable, item.Durable)
	}
	if !item.Behind.IsZero() {
		b.late(item)
	}
	switch {
	case item.Position != nil:
		b.Newest[item.Stream] = *item.Position
		b.removes = b.removes || item.Position.Ended == change.EndedRemoved
	case item.Version != "":
		b.Newest[item.Stream] = change.Position{Stream: item.Stream, ResourceVersion: item.Version, Time: item.Time}
	}
}

func (b *Batch) late(item *change.Item) {
	if b.Late == nil {
		b.Late = map[change.StreamID]Late{}
	}
	since := item.Behind
	if before, known := b.Late[item.Stream]; known && before.Since.Before(since) {
		since = before.Since
	}
	b.Late[item.Stream] = Late{since, item.Time}
}

// addStream records the stream of a record. Most records have the same stream as the record before, which needs no lookup.
func (b *Batch) addStream(item *change.Item) {
	if item.Stream == "" || b.lastStream == item.Stream && len(b.since) > 0 {
		return
	}
	b.lastStream = item.Stream
	if _, ok := b.since[item.Stream]; !ok {
		b.since[item.Stream] = item.Time
	}
}
