package reader

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// A disk or an operator may remove records from the middle of a topic. Compaction leaves at most one record of each key before a
// hole. So it has not made a hole that two records with the same key precede.

// Hole implements sinks.HoleFinder. It reads the control topic, and the keys of data topics that lack records.
func (r *Reader) Hole(ctx context.Context) (h *sinks.Hole, err error) {
	topics, err := r.topics(ctx, nil)
	for _, topic := range topics {
		if err == nil && h == nil {
			h, err = r.holeOf(ctx, topic)
		}
	}
	if err == nil && h == nil {
		h, err = r.slotHole(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("search for holes in the log: %w", err)
	}
	return h, nil
}

// slotHole returns a hole between batch records, or nil. It reads them twice, since they may be compacted during the first time.
func (r *Reader) slotHole(ctx context.Context) (h *sinks.Hole, err error) {
	for range 2 {
		f := newSlotHoles()
		if err = r.controls(ctx, nil, f.add); err != nil {
			return nil, err
		}
		if h = f.unexplained(); h == nil {
			break
		}
	}
	return h, nil
}

// holeOf returns a hole of a data topic, or nil. Only the last one of each partition is considered.
func (r *Reader) holeOf(ctx context.Context, topic string) (*sinks.Hole, error) {
	starts, ends, err := r.Client.Bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	from := starts
	settings, err := r.settings(ctx, topic)
	if err == nil && strings.Contains(settings[admin.CleanupPolicy], "compact") {
		from, err = r.Client.Since(ctx, topic, time.Now().Add(-millisOf(settings[admin.CompactionLag])))
	}
	for p, end := range ends {
		if err != nil || from[p] < 0 || from[p] >= end {
			continue
		}
		s := logread.Span{Topic: topic, Partition: int32(p), First: from[p], Next: end}
		if s, _, err = r.lastHole(ctx, s); err != nil || s.First == s.Next {
			continue
		}
		var isRemoved bool
		before := logread.Span{Topic: topic, Partition: s.Partition, First: starts[p], Next: s.First}
		if isRemoved, err = r.repeats(ctx, before); isRemoved {
			return &sinks.Hole{Reason: fmt.Sprintf("%s/%d has no records from offset %d to %d", topic, p, s.First, s.Next-1)}, nil
		}
	}
	return nil, err
}

// repeats reports whether two records of a span have the same key.
func (r *Reader) repeats(ctx context.Context, s logread.Span) (repeated bool, err error) {
	keys, seed := map[uint64]bool{}, maphash.MakeSeed()
	reader := consumer.New(r.Client, consumer.Range{Topic: s.Topic, Partition: s.Partition, First: s.First, NoValues: true,
		Wanted: func(f *consumer.Record) bool {
			key := maphash.Bytes(seed, f.Key)
			repeated = repeated || keys[key]
			keys[key] = true
			return false
		}})
	for more := true; more && err == nil && !repeated; {
		more, err = reader.Fetch(ctx, s.Next-1)
	}
	return repeated, err
}

// Numbers is a search for holes in the numbers of a slot's batches, and how far it came.
type Numbers struct {
	slotHoles
	control *consumer.Reader
}

// Search searches on in the control topic until a time. It returns how far it came, or nil at the topic's end if it searches
// again.
func (r *Reader) Search(ctx context.Context, slot int, partition int32, n *Numbers, again bool, until time.Time) (*Numbers,
	*sinks.Hole, error) {
	ends, err := r.Client.StableEnds(ctx, r.ControlTopic())
	if err != nil {
		return n, nil, err
	}
	if n == nil {
		starts, err := r.Client.Starts(ctx, r.ControlTopic())
		if err != nil {
			return nil, nil, err
		}
		n = &Numbers{slotHoles: newSlotHoles()}
		n.control = r.controlReader(int(partition), starts[int(partition)], func(c logread.Control) error {
			if c.Slot == slot {
				n.number(c)
			}
			n.learn(c)
			return nil
		})
	}
	for more := true; more; {
		if time.Now().After(until) {
			return n, n.unexplained(), nil
		}
		more, err = n.control.Fetch(ctx, ends[int(partition)]-1)
		if errors.Is(err, consumer.ErrGone) { // the retention was faster
			return nil, nil, nil
		} else if err != nil {
			return nil, nil, err
		}
	}
	h := n.unexplained()
	if again {
		n = nil
	}
	return n, h, nil
}

// slotHoles finds holes between the batch records of slots.
type slotHoles struct {
	slots    map[int]*slotBatches
	versions map[change.StreamID]change.ResourceVersion // "" until a stream's first list ends
}

func newSlotHoles() slotHoles {
	return slotHoles{slots: map[int]*slotBatches{}, versions: map[change.StreamID]change.ResourceVersion{}}
}

// slotBatches is what was read of a slot.
type slotBatches struct {
	records   int
	last      uint64 // batch; 0: unknown
	partition int32
	holes     []*numberHole
}

// numberHole is a hole between two batch records, with the records after it that may explain it. A batch's positions follow
// these.
type numberHole struct {
	*sinks.Hole
	records []*change.Control // about gaps, and about streams that begin
}

func (f *slotHoles) add(c logread.Control) error {
	f.number(c)
	f.learn(c)
	return nil
}

// number finds a hole before a control record of a slot, by the batch number. The batch record is the last control record of its
// batch.
func (f *slotHoles) number(c logread.Control) {
	s := f.slots[c.Slot]
	if s == nil {
		s = &slotBatches{}
		f.slots[c.Slot] = s
	}
	if s.records++; c.Type == change.ControlOpen { // the checkpoint's batch may be an earlier one
		return
	}
	if s.records > 2 && s.last > 0 && c.Batch > s.last+1 && c.Partition == s.partition {
		reason := fmt.Sprintf("batch %d of slot %d follows batch %d in the control topic", c.Batch, c.Slot, s.last)
		s.holes = append(s.holes, &numberHole{Hole: &sinks.Hole{Reason: reason, Before: maps.Clone(f.versions)}})
	}
	if s.last, s.partition = max(s.last+1, c.Batch)-1, c.Partition; c.Type == change.ControlBatch {
		s.last = c.Batch
	}
}

// learn adds what a control record says of streams.
func (f *slotHoles) learn(c logread.Control) {
	explains := c.Type == change.ControlSnapshotBegin || c.Gap != nil &&
		(c.Gap.Lost() || c.Gap.ID == sinks.HoleID(c.Stream, c.Gap.From))
	if c.Type == change.ControlSnapshotBegin {
		f.versions[c.Stream] += "" // it is known from now on
	}
	for _, p := range c.Positions {
		f.versions[p.Stream] = p.ResourceVersion
	}
	for _, s := range f.slots {
		for _, h := range s.holes {
			if explains {
				h.records = append(h.records, c.Control)
			}
			for _, p := range c.Positions {
				h.Moved(p.Stream, p.ResourceVersion)
			}
		}
	}
}

// unexplained returns a hole that no gap record explains, or nil.
func (f *slotHoles) unexplained() *sinks.Hole {
	for _, slot := range slices.Sorted(maps.Keys(f.slots)) {
		for _, h := range f.slots[slot].holes {
			for _, c := range h.records {
				h.Explain(c)
			}
			if len(h.Records()) > 0 {
				return h.Hole
			}
		}
	}
	return nil
}
