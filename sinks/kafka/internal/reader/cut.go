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

// CutAt implements sinks.Reader.
func (r *Reader) CutAt(ctx context.Context, logged time.Time) (cut sinks.Cut, err error) {
	places, offsets, err := r.cutsAt(ctx, logged)
	return sinks.Cut{Batches: places[r.Envelope.Cluster], Offsets: offsets}, err
}

// cutsAt finds the first control record after the time, and reads from a little before it to the end. It returns the batches by
// cluster.
func (r *Reader) cutsAt(ctx context.Context, logged time.Time) (map[string]sinks.Place, change.Offsets, error) {
	f := &cutFinder{places: map[string]sinks.Place{r.Envelope.Cluster: {}}, logged: logged, passed: map[sinks.SlotID]bool{},
		first: change.Offsets{},
		last:  change.Offsets{}}
	stable, err := r.stableEnds(ctx)
	if err != nil {
		return f.places, nil, err
	}
	ends, next, err := r.Client.SettledEnds(ctx, r.ControlTopic())
	if err != nil || len(ends) == 0 {
		return f.places, nil, err
	}
	f.next = next
	starts, err := r.Client.Starts(ctx, r.ControlTopic())
	if err != nil {
		return f.places, nil, err
	}
	from := maps.Clone(ends)
	if !logged.IsZero() {
		if from, err = r.since(ctx, logged.Add(time.Millisecond)); err != nil {
			return f.places, nil, err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		first := max(starts[p], min(from[p], ends[p])-recentControls)
		f.oldest = time.Time{}
		if err := r.controlReader(p, first, f.see).ReadTo(ctx, ends[p]-1); err != nil {
			return f.places, nil, err
		}
		if first > 0 && first == starts[p] && f.oldest.After(logged) && !logged.IsZero() {
			return f.places, nil, fmt.Errorf("the first control record is of %s: %w", f.oldest.UTC().Format(time.RFC3339),
				sinks.ErrNotRetained)
		}
	}
	offsets := f.offsets(stable)
	offsets[r.ControlTopic()] = f.next
	return f.places, offsets, nil
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
	places map[string]sinks.Place // by cluster
	logged time.Time              // zero: the cut is at the end
	oldest time.Time              // when the first batch of the partition was logged
	// in each partition of the control topic, the offset before which there is no later batch record
	next        map[int]int64
	passed      map[sinks.SlotID]bool // slots with a batch after the cut
	first, last change.Offsets        // in each partition, the first offset after the cut, and the last before it
}

func (f *cutFinder) see(c logread.Control) error {
	if c.Type != change.ControlBatch {
		return nil
	}
	written := time.UnixMilli(c.TimeMs)
	if f.oldest.IsZero() {
		f.oldest = written
	}
	place := f.places[c.Cluster]
	if place == nil {
		place = sinks.Place{}
		f.places[c.Cluster] = place
	}
	if f.passed[c.SlotID()] || !f.logged.IsZero() && written.After(f.logged) {
		f.after(c, place)
		return nil
	}
	place[c.Slot] = c.Batch
	for topic, ends := range c.Ends() {
		for p, next := range ends {
			f.last.Merge(change.Offsets{topic: {p: max(next, f.last[topic][p])}})
		}
	}
	return nil
}

// after adds a batch after the cut.
func (f *cutFinder) after(c logread.Control, place sinks.Place) {
	if !f.passed[c.SlotID()] {
		f.passed[c.SlotID()] = true
		place[c.Slot] = c.Batch - 1
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
