package reader

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"maps"
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

// hole is a hole in a slot's batch records, or in a data topic.
type hole struct {
	*sinks.Hole
	logread.Span // in a data topic; else empty
	slot         int
	isPassed     bool // the batches are after the hole
	gaps         []*change.Control
}

// place is where a batch record is.
type place struct {
	partition int32
	batch     uint64
}

// holeFinder finds holes in the control records, and what they explain.
type holeFinder struct {
	*Reader
	holes    []*hole
	last     map[int]place // each slot's last batch
	records  map[int]int   // by slot: how many control records there are
	versions map[change.StreamID]change.ResourceVersion
}

// Hole implements sinks.HoleFinder. It reads the control topic, and the keys of data topics that lack records.
func (r *Reader) Hole(ctx context.Context) (*sinks.Hole, error) {
	f := &holeFinder{r, nil, map[int]place{}, map[int]int{}, map[change.StreamID]change.ResourceVersion{}}
	topics, err := r.topics(ctx, nil)
	for _, topic := range topics {
		if err == nil {
			err = f.search(ctx, topic)
		}
	}
	if err == nil {
		err = r.controls(ctx, nil, f.add)
	}
	settings, failed := r.settings(ctx, r.ControlTopic())
	if err != nil || failed != nil {
		return nil, fmt.Errorf("search for holes in the log: %w", cmp.Or(err, failed))
	}
	for _, h := range f.holes {
		for _, c := range h.gaps {
			h.Explain(c)
		}
		isCompacted := h.Topic == "" && strings.Contains(settings[admin.CleanupPolicy], "compact")
		if len(h.Records()) > 0 && !isCompacted {
			return h.Hole, nil
		}
	}
	return nil, nil
}

// search adds the last hole of each partition of a data topic, unless compaction may have made it.
func (f *holeFinder) search(ctx context.Context, topic string) error {
	starts, ends, err := f.Client.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	settings, err := f.settings(ctx, topic)
	from := starts
	if err == nil && strings.Contains(settings[admin.CleanupPolicy], "compact") {
		from, err = f.Client.Since(ctx, topic, time.Now().Add(-millisOf(settings[admin.CompactionLag])))
	}
	for p, end := range ends {
		if err != nil || from[p] < 0 || from[p] >= end {
			continue
		}
		s, _, failed := f.lastHole(ctx, logread.Span{Topic: topic, Partition: int32(p), First: from[p], Next: end})
		isRemoved := false
		if err = failed; err == nil && s.First < s.Next {
			isRemoved, err = f.repeats(ctx, logread.Span{Topic: topic, Partition: int32(p), First: starts[p], Next: s.First})
		}
		if isRemoved {
			reason := fmt.Sprintf("%s/%d has no record at offset %d and the next ones before %d", topic, p, s.First, s.Next)
			f.holes = append(f.holes, &hole{Hole: &sinks.Hole{Reason: reason}, Span: s})
		}
	}
	return err
}

// repeats reports whether two records of a span have the same key.
func (f *holeFinder) repeats(ctx context.Context, s logread.Span) (repeated bool, err error) {
	keys, seed := map[uint64]bool{}, maphash.MakeSeed()
	reader := consumer.New(f.Client, consumer.Range{Topic: s.Topic, Partition: s.Partition, First: s.First, NoValues: true,
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

// add adds a control record. A batch record is the last one of its batch.
func (f *holeFinder) add(c logread.Control) error {
	last, known := f.last[c.Slot]
	if known && c.Batch > last.batch+1 && c.Type != change.ControlOpen && c.Partition == last.partition && f.records[c.Slot] > 1 {
		h := &hole{Hole: &sinks.Hole{Before: maps.Clone(f.versions)}, slot: c.Slot, isPassed: true}
		h.Reason = fmt.Sprintf("in %s batch %d of slot %d follows batch %d", f.ControlTopic(), c.Batch, c.Slot, last.batch)
		f.holes = append(f.holes, h)
	}
	for _, h := range f.holes {
		f.pass(h, c)
	}
	f.records[c.Slot]++
	switch c.Type {
	case change.ControlOpen: // the checkpoint's batch may be an earlier one
		return nil
	case change.ControlBatch:
		f.last[c.Slot] = place{batch: c.Batch}
		for _, p := range c.Positions {
			f.versions[p.Stream] = p.ResourceVersion
		}
	case change.ControlSnapshotBegin:
		f.versions[c.Stream] += "" // so that it is known
	}
	f.last[c.Slot] = place{c.Partition, max(f.last[c.Slot].batch+1, c.Batch) - 1}
	return nil
}

// pass adds a control record to a hole, if the record is after it.
func (f *holeFinder) pass(h *hole, c logread.Control) {
	if ends, has := c.Ranges[h.Topic][int(h.Partition)]; !h.isPassed && c.Type == change.ControlBatch {
		isIn := has && ends[0] < h.Next && ends[1] >= h.First
		if isIn && h.Before == nil {
			h.Before = maps.Clone(f.versions)
		}
		h.isPassed = h.Before != nil && !isIn
	}
	if !h.isPassed {
		return
	}
	concerns := func(s change.StreamID) bool {
		return h.Topic == "" && c.Slot == h.slot || h.Topic != "" && change.TopicOf(f.Envelope.Prefix, s) == h.Topic
	}
	_, known := h.Before[c.Stream]
	switch {
	case c.Type == change.ControlGap && c.Gap != nil:
		h.gaps = append(h.gaps, c.Control)
	case c.Type == change.ControlSnapshotBegin && !known: // the stream begins after the hole
		h.Moved(c.Stream, change.UnknownVersion)
	}
	for _, p := range c.Positions {
		if concerns(p.Stream) {
			h.Moved(p.Stream, p.ResourceVersion)
		}
	}
}
