package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
)

// maxTail bounds how many changes are read back into memory. A checkpoint is normally one batch behind; one
// that is this far behind belongs to another time.
const maxTail = 100_000

// recover reads what earlier owners made durable after the checkpoint: the batch records of the slot up to the
// mark, and the changes that they speak of.
func (l *slotLog) recover(ctx context.Context) ([]sinks.Recovered, error) {
	if err := l.sink.client.scanTo(ctx, l.after.scanner, l.marked-1); err != nil {
		return nil, asLost(err)
	}
	if err := cmp.Or(l.newer(), l.after.lost); err != nil {
		return nil, asLost(err)
	}
	recovered := make([]sinks.Recovered, 0, len(l.after.batches))
	for i := range l.after.batches {
		r, err := l.readBatch(ctx, &l.after.batches[i])
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

// tail is what follows the checkpoint: the slot's batch records, in order and without a hole.
type tail struct {
	log     *slotLog
	from    sinks.Durable
	scanner *scanner
	seq     uint64 // of the last batch
	batches []tailBatch
	changes int   // of all of them
	lost    error // why they can't be rolled forward one by one
}

// beginTail reads as far as the topic goes for now.
func (l *slotLog) beginTail(ctx context.Context, from sinks.Durable, end int64) (*tail, error) {
	t := &tail{log: l, from: from, seq: from.Seq}
	start, err := l.logStart(ctx)
	if err != nil {
		return nil, err
	}
	first, err := l.tailStart(ctx, from, start, end)
	if errors.Is(err, errGone) {
		first, t.lost = start, err
	} else if err != nil {
		return nil, err
	} else if first > start {
		l.met.own = true // the checkpoint has batches before this
	}
	t.scanner = l.controlScanner(l.control.index, first, t.add)
	return t, l.sink.client.scanTo(ctx, t.scanner, end-1)
}

func (t *tail) add(f fetched) error {
	c := f.control
	switch {
	case t.lost != nil || c.Slot != t.log.slot || c.Type != change.ControlBatch || c.Batch <= t.from.Seq:
	case c.Batch != t.seq+1:
		t.lost = gone("batch %d follows batch %d in %s", c.Batch, t.seq, t.log.control.topic.name)
	case t.changes+c.Changes > maxTail:
		t.lost = gone("the checkpoint is more than %d changes behind the log: too old to go on from", maxTail)
	default:
		t.seq, t.changes = c.Batch, t.changes+c.Changes
		t.batches = append(t.batches, tailBatch{*c, f.offset + 1})
		return nil
	}
	if t.lost != nil {
		t.batches = nil
	}
	return nil
}

// tailStart is the offset to read the control partition from. The checkpoint's offset is trusted only when the
// record before it is the batch record that the checkpoint speaks of (or, before the first batch, a mark of this slot): a
// topic that was deleted and made anew has the same name and may have grown past the offset.
func (l *slotLog) tailStart(ctx context.Context, from sinks.Durable, start, end int64) (int64, error) {
	next, known := from.Offsets[l.control.topic.name][int(l.control.index)]
	switch {
	case !known:
		return start, nil
	case start == next+1 && l.sink.cfg.Delivery == ExactlyOnce:
		return start, nil // all has expired up to the marker that ended that batch's transaction
	case start > next:
		return 0, gone("%s/%d starts at offset %d, the checkpoint stands at %d", l.control.topic.name, l.control.index, start, next)
	case next > end:
		return 0, gone("%s/%d ends at offset %d, the checkpoint stands at %d", l.control.topic.name, l.control.index, end, next)
	case start == next:
		return next, nil // the record before it has expired
	}
	found := false
	s := l.controlScanner(l.control.index, next-1, func(f fetched) error {
		c := f.control
		found = c.Slot == l.slot && c.Batch == from.Seq && (c.Type == change.ControlBatch || from.Seq == 0 && c.Type == change.ControlOpen)
		return nil
	})
	s.committed, s.last = true, next-1
	if err := l.sink.client.scan(ctx, s); err != nil {
		return 0, err
	}
	if !found {
		return 0, gone("%s/%d was made anew: offset %d is not batch %d", l.control.topic.name, l.control.index, next-1, from.Seq)
	}
	return next, nil
}

// logStart is the first offset that the control partition still has.
func (l *slotLog) logStart(ctx context.Context) (int64, error) {
	starts, err := l.sink.client.starts(ctx, l.control.topic.name)
	return starts[int(l.control.index)], err
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
