package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
)

// history is what the control topic tells of the cluster's streams, whichever slots they were in.
type history struct {
	log      *slotLog
	scanners []*scanner // one for each partition
	streams  map[change.StreamID]standing
	slots    map[int]*slotPast
	ranges   change.Offsets // where the records of the last batches end
	whole    bool           // nothing has expired: what is not told was not written
	said     time.Time
}

// standing is where a stream stood last.
type standing struct {
	change.Position
	partition int32 // of the control topic, that says so
	timeMs    int64
}

// slotPast is what a slot has done, as far as the topic still tells.
type slotPast struct {
	seq       uint64           // its last batch
	epochs    map[int64]uint64 // the last batch of each owner; of one that wrote none, the last before it
	partition int32            // of the last batch's record
	next      int64            // the offset after that
}

// readHistory reads all partitions of the control topic up to their ends.
func (l *slotLog) readHistory(ctx context.Context, ends map[int]int64) (*history, error) {
	h := &history{log: l, streams: map[change.StreamID]standing{}, slots: map[int]*slotPast{}, ranges: change.Offsets{}, whole: true, said: time.Now()}
	starts, err := l.sink.client.starts(ctx, l.control.topic.name)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		partition := int32(p)
		h.whole = h.whole && starts[p] == 0
		h.scanners = append(h.scanners, l.controlScanner(partition, starts[p], func(f fetched) error {
			h.note(f.control, partition, f.offset)
			return nil
		}))
	}
	return h, h.readTo(ctx, ends)
}

// readTo goes on up to the offsets.
func (h *history) readTo(ctx context.Context, ends map[int]int64) error {
	for _, s := range h.scanners {
		if err := h.log.sink.client.scanTo(ctx, s, ends[int(s.partition)]-1); err != nil {
			return err
		}
	}
	return nil
}

// used reports whether there is anything before this owner's mark. A control topic that is empty may have been made anew,
// beside data topics that were not.
func (h *history) used() bool {
	return slices.ContainsFunc(h.scanners, func(s *scanner) bool { return s.read > 0 })
}

// note takes in a committed record of the cluster.
func (h *history) note(c *change.Control, partition int32, offset int64) {
	if time.Since(h.said) > sayEvery {
		h.said = time.Now()
		h.log.sink.cfg.Logger.Info("reading what the control topic tells", "slot", h.log.slot, "partition", partition, "offset", offset,
			"time", time.UnixMilli(c.TimeMs).UTC())
	}
	switch c.Type {
	case change.ControlOpen:
		if _, ok := h.slot(c.Slot).epochs[c.Epoch]; !ok {
			h.slot(c.Slot).epochs[c.Epoch] = c.Batch
		}
	case change.ControlBatch:
		h.batch(c, partition, offset)
	case change.ControlSnapshotBegin:
		if _, ok := h.streams[c.Stream]; !ok {
			h.stand(change.Position{Stream: c.Stream}, c, partition)
		}
	case change.ControlGap:
		if c.Gap != nil && c.Gap.From == change.UnknownVersion { // written anew from there
			h.stand(change.Position{Stream: c.Stream}, c, partition)
		}
	}
}

func (h *history) slot(n int) *slotPast {
	if h.slots[n] == nil {
		h.slots[n] = &slotPast{epochs: map[int64]uint64{}}
	}
	return h.slots[n]
}

func (h *history) batch(c *change.Control, partition int32, offset int64) {
	s := h.slot(c.Slot)
	s.seq, s.partition, s.next = c.Batch, partition, offset+1
	s.epochs[c.Epoch] = c.Batch
	for _, p := range c.Positions {
		h.stand(p, c, partition)
	}
	for topic, ranges := range c.Ranges {
		for p, ends := range ranges {
			h.ranges.Merge(change.Offsets{topic: {p: ends[1] + 1}})
		}
	}
}

// stand notes a stream's newest position. Between records of two partitions, as of a stream that moved to another slot,
// there is no order but by time.
func (h *history) stand(p change.Position, c *change.Control, partition int32) {
	old, ok := h.streams[p.Stream]
	if !ok || old.partition == partition || old.timeMs <= c.TimeMs {
		h.streams[p.Stream] = standing{p, partition, c.TimeMs}
	}
}

// finished reports whether a batch's record is there, as far as the topic still tells of its owner. Only a record that was
// written without a transaction needs it.
func (h *history) finished(slot int, epoch int64, batch uint64) bool {
	s := h.slots[slot]
	if s == nil {
		return true
	}
	last, known := s.epochs[epoch]
	return !known || batch <= last
}
