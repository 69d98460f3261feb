package takeover

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// history is what the control topic has of the cluster's streams, whichever slots they were in.
type history struct {
	log     *Slot
	readers []*consumer.Reader // one for each partition
	streams map[change.StreamID]streamState
	owners  logread.Owners
	last    map[int]logread.Control // the last batch record of each slot
	ranges  change.Offsets          // where the records of the last batches end
	starts  change.Offsets          // that the slot's batch records account for
	spread  map[string]int          // over how many partitions of each topic the keys are spread
	whole   bool                    // no record has expired
	logged  time.Time               // when the progress was logged last
}

// progressEvery is how often the progress of reading is logged.
const progressEvery = 5 * time.Second

// streamState is the newest position of a stream.
type streamState struct {
	change.Position
	partition int32 // of the control topic
	timeMs    int64
}

// readHistory reads all partitions of the control topic up to their ends.
func (l *Slot) readHistory(ctx context.Context, ends map[int]int64) (*history, error) {
	h := &history{log: l, streams: map[change.StreamID]streamState{}, owners: logread.Owners{},
		last: map[int]logread.Control{}, ranges: change.Offsets{}, starts: change.Offsets{}, spread: map[string]int{}, whole: true, logged: time.Now()}
	starts, err := l.Client.Starts(ctx, l.ControlTopic())
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		h.whole = h.whole && starts[p] == 0
		h.readers = append(h.readers, consumer.New(l.Client, l.controls(int32(p), starts[p], h.note)))
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
func (h *history) note(c logread.Control) error {
	if time.Since(h.logged) > progressEvery {
		h.logged = time.Now()
		h.log.Config.Logger.Info("reading the control topic", "slot", h.log.slot, "partition", c.Partition, "offset", c.Offset,
			"time", time.UnixMilli(c.TimeMs).UTC())
	}
	h.owners.Note(c.Control)
	switch c.Type {
	case change.ControlBatch:
		h.last[c.Slot] = c
		h.ranges.Merge(c.Ends())
		maps.Copy(h.spread, c.Spread)
		if c.Slot == h.log.slot {
			h.starts.Merge(logread.StartsAsOffsets(c.Starts))
		}
		for _, p := range c.Positions {
			h.setPosition(p, c)
		}
	case change.ControlSnapshotBegin:
		if _, ok := h.streams[c.Stream]; !ok {
			h.setPosition(change.Position{Stream: c.Stream}, c)
		}
	case change.ControlGap:
		if c.Gap != nil && c.Gap.Lost() { // the stream is written again from there
			h.setPosition(change.Position{Stream: c.Stream}, c)
		}
	}
	return nil
}

// setPosition sets a stream's newest position. Records of two partitions, as of a stream that moved to another slot, are
// ordered by time only.
func (h *history) setPosition(p change.Position, c logread.Control) {
	old, ok := h.streams[p.Stream]
	if !ok || old.partition == c.Partition || old.timeMs <= c.TimeMs {
		h.streams[p.Stream] = streamState{p, c.Partition, c.TimeMs}
	}
}
