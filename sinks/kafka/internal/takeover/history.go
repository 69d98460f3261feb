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

// history is what the control topic has of the cluster's streams, in all slots.
type history struct {
	log        *Slot
	readers    []*consumer.Reader // one for each partition
	streams    map[change.StreamID]streamState
	lost       map[change.StreamID]*change.Gap // the last gap of each stream that says that the log has lost records
	owners     logread.Owners
	last       map[int]logread.Control // the last batch record of each slot
	ranges     change.Offsets          // ends of the last batches' records
	starts     change.Offsets          // starts that the slot's batch records account for
	spread     map[string]int          // over how many partitions each topic's keys are spread
	isComplete bool                    // no record has expired
	logged     time.Time               // when the progress was last logged
}

// progressEvery is the interval between log lines about the progress.
const progressEvery = 5 * time.Second

// streamState is the newest position of a stream.
type streamState struct {
	change.Position
	partition int32 // in the control topic
	timeMs    int64
}

// readHistory reads all partitions of the control topic up to their ends.
func (l *Slot) readHistory(ctx context.Context, ends map[int]int64) (*history, error) {
	h := &history{log: l, streams: map[change.StreamID]streamState{}, lost: map[change.StreamID]*change.Gap{},
		owners: logread.Owners{},
		last:   map[int]logread.Control{}, ranges: change.Offsets{}, starts: change.Offsets{}, spread: map[string]int{},
		isComplete: true, logged: time.Now()}
	starts, err := l.Client.Starts(ctx, l.ControlTopic())
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		h.isComplete = h.isComplete && starts[p] == 0
		h.readers = append(h.readers, consumer.New(l.Client, l.controls(int32(p), starts[p], h.add)))
	}
	return h, h.readTo(ctx, ends)
}

// readTo continues to read up to the offsets.
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

// add adds a committed record of the cluster.
func (h *history) add(c logread.Control) error {
	if time.Since(h.logged) > progressEvery {
		h.logged = time.Now()
		h.log.Config.Logger.Info("reading the control topic", "slot", h.log.slot, "partition", c.Partition, "offset", c.Offset,
			"time", time.UnixMilli(c.TimeMs).UTC())
	}
	h.owners.Add(c.Control)
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
		if c.Gap != nil && c.Gap.Lost() { // from there the stream is written again
			h.setPosition(change.Position{Stream: c.Stream}, c)
			h.lost[c.Stream] = c.Gap
		}
	}
	return nil
}

// setPosition sets a stream's newest position. Records of two partitions, for instance if a stream moved to another slot, are
// ordered by time only.
func (h *history) setPosition(p change.Position, c logread.Control) {
	old, ok := h.streams[p.Stream]
	if !ok || old.partition == c.Partition || old.timeMs <= c.TimeMs {
		h.streams[p.Stream] = streamState{p, c.Partition, c.TimeMs}
	}
}
