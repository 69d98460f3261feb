package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"kubecdc/change"
	"kubecdc/sinks"
)

const (
	// maxTail bounds how many changes are read back into memory. A checkpoint is normally one batch behind; one
	// that is this far behind belongs to another time.
	maxTail = 100_000
	// tombstonesFor is how long Kafka keeps tombstones in a compacted topic (delete.retention.ms).
	tombstonesFor = 24 * time.Hour
)

// recover reads what earlier owners made durable after the checkpoint: the batch records of the slot up to the
// mark, and the changes that they speak of.
func (l *slotLog) recover(ctx context.Context, from sinks.Durable, mark int64) ([]sinks.Recovered, error) {
	tail, err := l.readTail(ctx, from, mark)
	if err != nil {
		return nil, asLost(err)
	}
	recovered := make([]sinks.Recovered, 0, len(tail))
	for _, t := range tail {
		r, err := l.readBatch(ctx, &t)
		if err != nil {
			return nil, asLost(err)
		}
		recovered = append(recovered, r)
	}
	return recovered, nil
}

func asLost(err error) error {
	if errors.Is(err, errGone) {
		return &sinks.LostTailError{Reason: err.Error()}
	}
	return err
}

func gone(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errGone)...)
}

// tailBatch is a batch record found after the checkpoint.
type tailBatch struct {
	change.Control
	next int64 // the offset after it
}

// readTail gives the slot's batch records after the checkpoint, in order and without a hole.
func (l *slotLog) readTail(ctx context.Context, from sinks.Durable, mark int64) ([]tailBatch, error) {
	first, err := l.tailStart(ctx, from, mark)
	if err != nil {
		return nil, err
	}
	var tail []tailBatch
	changes, seq := 0, from.Seq
	s := l.controlScan(first, mark-1, func(c *change.Control, offset int64) error {
		if c.Epoch > l.epoch {
			return fmt.Errorf("epoch %d has opened slot %d: %w", c.Epoch, l.slot, sinks.ErrFenced)
		}
		if c.Type != change.ControlBatch || c.Batch <= from.Seq {
			return nil
		}
		if c.Batch != seq+1 {
			return gone("batch %d follows batch %d in %s", c.Batch, seq, l.control.topic.name)
		}
		seq = c.Batch
		if changes += c.Changes; changes > maxTail {
			return gone("the checkpoint is more than %d changes behind the log: too old to go on from", maxTail)
		}
		tail = append(tail, tailBatch{*c, offset + 1})
		return nil
	})
	return tail, l.sink.client.scan(ctx, s)
}

// controlScan visits the slot's own control records.
func (l *slotLog) controlScan(first, last int64, visit func(*change.Control, int64) error) *scanner {
	slot := strconv.Itoa(l.slot)
	return &scanner{topic: l.control.topic.name, partition: l.control.index, first: first, last: last,
		visit: func(f fetched) error {
			if f.headers[change.HeaderSlot] != slot {
				return nil
			}
			var c change.Control
			if err := json.Unmarshal(f.value, &c); err != nil {
				return fmt.Errorf("decode the control record at offset %d: %w", f.offset, err)
			}
			if c.Cluster != l.envelope.Cluster {
				return nil
			}
			return visit(&c, f.offset)
		}}
}

// tailStart is the offset to read the control partition from. The checkpoint's offset is trusted only when the
// record before it is the batch record that the checkpoint speaks of: a topic that was deleted and made anew
// has the same name and may have grown past the offset.
func (l *slotLog) tailStart(ctx context.Context, from sinks.Durable, mark int64) (int64, error) {
	start, err := l.logStart(ctx)
	if err != nil {
		return 0, err
	}
	next, known := from.Offsets[l.control.topic.name][int(l.control.index)]
	switch {
	case !known:
		return start, nil
	case start > next:
		return 0, gone("%s/%d starts at offset %d, the checkpoint stands at %d", l.control.topic.name, l.control.index, start, next)
	case next > mark:
		return 0, gone("%s/%d ends at offset %d, the checkpoint stands at %d", l.control.topic.name, l.control.index, mark, next)
	case start == next:
		return next, nil // the record before it has expired
	}
	found := false
	s := l.controlScan(next-1, next-1, func(c *change.Control, _ int64) error {
		found = c.Type == change.ControlBatch && c.Batch == from.Seq
		return nil
	})
	s.committed = true
	if err := l.sink.client.scan(ctx, s); err != nil {
		return 0, err
	}
	if !found {
		return 0, gone("%s/%d was made anew: offset %d is not batch %d", l.control.topic.name, l.control.index, next-1, from.Seq)
	}
	return next, nil
}

// logStart is the first offset that the control partition still has.
func (l *slotLog) logStart(ctx context.Context) (start int64, err error) {
	const earliest = -2
	name, p := l.control.topic.name, l.control.index
	err = l.sink.client.try(ctx, "find the start of "+name, func(ctx context.Context) error {
		m, err := l.sink.client.roundTrip(ctx, &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
			Topic: name, Partitions: []listoffsets.RequestPartition{{Partition: p, CurrentLeaderEpoch: -1, Timestamp: earliest}},
		}}})
		if err != nil {
			return err
		}
		r := m.(*listoffsets.Response).Topics[0].Partitions[0]
		start = r.Offset
		return codeError(r.ErrorCode)
	})
	return start, err
}

// readBatch reads the changes of one batch back.
func (l *slotLog) readBatch(ctx context.Context, t *tailBatch) (sinks.Recovered, error) {
	r := sinks.Recovered{
		Batch:   change.Batch{Slot: t.Slot, Epoch: t.Epoch, Seq: t.Batch, Positions: t.Positions},
		Offsets: change.Offsets{l.control.topic.name: {int(l.control.index): t.next}},
	}
	rb := &rebuilder{batch: t, parts: map[string][][]byte{}}
	dead := change.DeadLetterTopic(l.envelope.Prefix)
	if err := l.scanRanges(ctx, dead, t.Ranges[dead], rb.addPart); err != nil {
		return r, err
	}
	for topic, ranges := range t.Ranges {
		if topic == dead {
			continue
		}
		if err := l.scanRanges(ctx, topic, ranges, rb.addChange); err != nil {
			return r, err
		}
	}
	for topic, ranges := range t.Ranges {
		for p, ends := range ranges {
			r.Offsets.Merge(change.Offsets{topic: {p: ends[1] + 1}})
		}
	}
	r.Batch.Changes = rb.changes
	return r, rb.check()
}

// scanRanges visits the batch's own records of one topic. In between may stand those of other slots, and in
// at-least-once mode those of an owner that was being fenced.
func (l *slotLog) scanRanges(ctx context.Context, topic string, ranges map[int][2]int64, visit func(fetched) error) error {
	if len(ranges) == 0 {
		return nil
	}
	if err := l.sink.client.exists(ctx, topic); err != nil {
		return err
	}
	for p, ends := range ranges {
		s := &scanner{topic: topic, partition: int32(p), first: ends[0], last: ends[1], committed: true, visit: visit}
		if err := l.sink.client.scan(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
