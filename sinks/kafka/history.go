package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
)

// history is what the control topic has of the cluster's streams, whichever slots they were in.
type history struct {
	log     *slotLog
	readers []*consumer.Reader // one for each partition
	streams map[change.StreamID]streamState
	slots   map[int]*slotHistory
	ranges  change.Offsets // where the records of the last batches end
	whole   bool           // no record has expired
	logged  time.Time      // when the progress was logged last
}

// progressEvery is how often the progress of reading is logged.
const progressEvery = 5 * time.Second

// streamState is the newest position of a stream.
type streamState struct {
	change.Position
	partition int32 // of the control topic
	timeMs    int64
}

// slotHistory is what the topic still has of a slot.
type slotHistory struct {
	seq       uint64 // its last batch
	owners    owners
	partition int32 // of the last batch's record
	next      int64 // the offset after that
}

// readHistory reads all partitions of the control topic up to their ends.
func (l *slotLog) readHistory(ctx context.Context, ends map[int]int64) (*history, error) {
	h := &history{log: l, streams: map[change.StreamID]streamState{}, slots: map[int]*slotHistory{},
		ranges: change.Offsets{}, whole: true, logged: time.Now()}
	starts, err := l.sink.client.Starts(ctx, l.control.Topic.Name)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		partition := int32(p)
		h.whole = h.whole && starts[p] == 0
		h.readers = append(h.readers, l.controlReader(partition, starts[p], func(f consumer.Record) error {
			h.note(controlOf(f), partition, f.Offset)
			return nil
		}))
	}
	return h, h.readTo(ctx, ends)
}

// readTo reads on up to the offsets.
func (h *history) readTo(ctx context.Context, ends map[int]int64) error {
	for _, r := range h.readers {
		if err := r.ReadTo(ctx, ends[int(r.Partition)]-1); err != nil {
			return err
		}
	}
	return nil
}

// used reports whether there is a record before this owner's open record. An empty control topic may have been recreated, while
// the data topics were not.
func (h *history) used() bool {
	return slices.ContainsFunc(h.readers, func(r *consumer.Reader) bool { return r.Records() > 0 })
}

// note adds a committed record of the cluster.
func (h *history) note(c *change.Control, partition int32, offset int64) {
	if time.Since(h.logged) > progressEvery {
		h.logged = time.Now()
		h.log.sink.cfg.Logger.Info("reading the control topic", "slot", h.log.slot, "partition", partition, "offset", offset,
			"time", time.UnixMilli(c.TimeMs).UTC())
	}
	switch c.Type {
	case change.ControlOpen:
		h.slot(c.Slot).owners.note(c)
	case change.ControlBatch:
		h.batch(c, partition, offset)
	case change.ControlSnapshotBegin:
		if _, ok := h.streams[c.Stream]; !ok {
			h.setPosition(change.Position{Stream: c.Stream}, c, partition)
		}
	case change.ControlGap:
		if c.Gap != nil && c.Gap.From == change.UnknownVersion { // the stream is written again from there
			h.setPosition(change.Position{Stream: c.Stream}, c, partition)
		}
	}
}

func (h *history) slot(n int) *slotHistory {
	if h.slots[n] == nil {
		h.slots[n] = &slotHistory{owners: owners{}}
	}
	return h.slots[n]
}

func (h *history) batch(c *change.Control, partition int32, offset int64) {
	s := h.slot(c.Slot)
	s.seq, s.partition, s.next = c.Batch, partition, offset+1
	s.owners.note(c)
	for _, p := range c.Positions {
		h.setPosition(p, c, partition)
	}
	for topic, ranges := range c.Ranges {
		for p, ends := range ranges {
			h.ranges.Merge(change.Offsets{topic: {p: ends[1] + 1}})
		}
	}
}

// setPosition sets a stream's newest position. Records of two partitions, as of a stream that moved to another slot, are
// ordered by time only.
func (h *history) setPosition(p change.Position, c *change.Control, partition int32) {
	old, ok := h.streams[p.Stream]
	if !ok || old.partition == partition || old.timeMs <= c.TimeMs {
		h.streams[p.Stream] = streamState{p, partition, c.TimeMs}
	}
}

// owners has the last batch of each owner of a slot, by its epoch; for one that wrote none, the last batch before it.
type owners map[int64]uint64

// note takes the control records of the slot in their order.
func (o owners) note(c *change.Control) {
	if _, known := o[c.Epoch]; !known || c.Type == change.ControlBatch {
		o[c.Epoch] = c.Batch
	}
}

// finished reports whether a batch has its batch record, as far as the topic still has records of its owner. It matters only for
// records that were written without a transaction.
func (o owners) finished(epoch int64, batch uint64) bool {
	last, known := o[epoch]
	return !known || batch <= last
}
