package reader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/logread"
)

// recentControls is how many control records before a cut are read to find each slot's last batch. A slot without a batch among
// them is cut by offsets.
const recentControls = 2000

// CutAt finds the first control record after the time, and reads from a little before it to the end.
func (r *Reader) CutAt(ctx context.Context, logged time.Time) (sinks.Cut, error) {
	f := &cutFinder{Cut: sinks.Cut{Batches: sinks.Place{}}, logged: logged, passed: map[int]bool{}, first: change.Offsets{},
		last: change.Offsets{}}
	stable, err := r.stableEnds(ctx)
	if err != nil {
		return f.Cut, err
	}
	ends, next, err := r.Client.SettledEnds(ctx, r.ControlTopic())
	if err != nil || len(ends) == 0 {
		return f.Cut, err
	}
	f.next = next
	starts, err := r.Client.Starts(ctx, r.ControlTopic())
	if err != nil {
		return f.Cut, err
	}
	from := maps.Clone(ends)
	if !logged.IsZero() {
		if from, err = r.since(ctx, logged.Add(time.Millisecond)); err != nil {
			return f.Cut, err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		first := max(starts[p], min(from[p], ends[p])-recentControls)
		f.oldest = time.Time{}
		if err := r.controlReader(p, first, f.see).ReadTo(ctx, ends[p]-1); err != nil {
			return f.Cut, err
		}
		if first > 0 && first == starts[p] && f.oldest.After(logged) && !logged.IsZero() {
			return f.Cut, fmt.Errorf("the first control record is of %s: %w", f.oldest.UTC().Format(time.RFC3339), sinks.ErrNotRetained)
		}
	}
	f.Offsets = f.offsets(stable)
	f.Offsets[r.ControlTopic()] = f.next
	return f.Cut, nil
}

// stableEnds returns the last stable offsets of all data topics.
func (r *Reader) stableEnds(ctx context.Context) (change.Offsets, error) {
	topics, err := r.topics(ctx, nil)
	if err != nil {
		return nil, err
	}
	all := change.Offsets{}
	for _, topic := range topics {
		ends, err := r.Client.StableEnds(ctx, topic)
		if err != nil {
			return nil, err
		}
		all.Merge(change.Offsets{topic: ends})
	}
	return all, nil
}

// cutFinder collects the control records around a cut.
type cutFinder struct {
	sinks.Cut
	logged      time.Time      // zero: the cut is at the end
	oldest      time.Time      // when the first batch of the partition was logged
	next        map[int]int64  // in each partition of the control topic, the offset before which there is no later batch record
	passed      map[int]bool   // slots with a batch after the cut
	first, last change.Offsets // in each partition, the first offset after the cut, and the last before it
}

func (f *cutFinder) see(c logread.Control) error {
	if c.Type != change.ControlBatch {
		return nil
	}
	written := time.UnixMilli(c.TimeMs)
	if f.oldest.IsZero() {
		f.oldest = written
	}
	if f.passed[c.Slot] || !f.logged.IsZero() && written.After(f.logged) {
		f.after(c)
		return nil
	}
	f.Batches[c.Slot] = c.Batch
	for topic, ends := range c.Ends() {
		for p, next := range ends {
			f.last.Merge(change.Offsets{topic: {p: max(next, f.last[topic][p])}})
		}
	}
	return nil
}

// after adds a batch after the cut.
func (f *cutFinder) after(c logread.Control) {
	if !f.passed[c.Slot] {
		f.passed[c.Slot] = true
		f.Batches[c.Slot] = c.Batch - 1
	}
	f.next[int(c.Partition)] = min(f.next[int(c.Partition)], c.Offset)
	for topic, ranges := range c.Ranges {
		for p, ends := range ranges {
			if old, known := f.first[topic][p]; !known || ends[0] < old {
				f.first.Merge(change.Offsets{topic: {p: ends[0]}})
			}
		}
	}
}

// offsets returns the next offset of each partition of the data topics.
func (f *cutFinder) offsets(stable change.Offsets) change.Offsets {
	next := change.Offsets{}.Merge(stable)
	for topic, partitions := range next {
		for p, end := range partitions {
			if last, known := f.last[topic][p]; known {
				partitions[p] = min(end, last)
			}
			if first, known := f.first[topic][p]; known {
				partitions[p] = first
			}
		}
	}
	return next
}
