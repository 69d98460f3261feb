package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
)

// asLostTail joins the error of a tail that is gone with what else the log has lost (nil: nothing). It returns other errors as
// they are.
func asLostTail(err error, other *sinks.LostTailError) error {
	if errors.Is(err, consumer.ErrGone) {
		return withTail(err, other)
	}
	return err
}

func withTail(gone error, other *sinks.LostTailError) *sinks.LostTailError {
	if other == nil {
		return &sinks.LostTailError{Reason: gone.Error()}
	}
	both := *other
	both.Reason, both.TailRead = gone.Error()+"; "+other.Reason, false
	return &both
}

func gone(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, consumer.ErrGone)...)
}

// tail is what follows the checkpoint in the control topic: the slot's batch records, in order and none missing. They may be
// many, so they are read twice: here, to know before anything is written that none is missing, and by readTail, which reads
// the changes of one batch after another.
type tail struct {
	log    *slotLog
	from   sinks.Durable
	reader *consumer.Reader
	first  int64  // the offset of the first batch record
	seq    uint64 // of the last one
	lost   error  // why the batches can't be read one by one; nil: they can
}

// beginTail reads up to the topic's current end.
func (l *slotLog) beginTail(ctx context.Context, from sinks.Durable, end int64) (*tail, error) {
	t := &tail{log: l, from: from, seq: from.Seq}
	start, err := l.logStart(ctx)
	if err != nil {
		return nil, err
	}
	id := from.Offsets[l.control.Topic.Name][change.TopicID]
	l.ids.told[l.control.Topic.Name] = id != 0
	var first int64
	if l.ids.differs(l.control.Topic.Name, id) {
		err = gone("%s was deleted and made again", l.control.Topic.Name)
	} else {
		first, err = l.tailStart(ctx, from, start, end)
	}
	if errors.Is(err, consumer.ErrGone) {
		first, t.lost = start, err
	} else if err != nil {
		return nil, err
	} else if first > start {
		l.seen.own = true // the checkpoint has batches of this topic
	}
	t.reader = l.controlReader(l.control.Index, first, t.note)
	return t, t.reader.ReadTo(ctx, end-1)
}

// end reads on up to this owner's open record.
func (t *tail) end(ctx context.Context) error {
	err := t.reader.ReadTo(ctx, t.log.openOffset-1)
	if errors.Is(err, consumer.ErrGone) {
		err, t.lost = nil, err
	}
	return cmp.Or(err, t.log.checkEpoch())
}

func (t *tail) note(f consumer.Record) error {
	c := controlOf(f)
	switch {
	case t.lost != nil || !t.follows(c):
	case c.Batch != t.seq+1:
		t.lost = gone("batch %d follows batch %d in %s%s", c.Batch, t.seq, t.log.control.Topic.Name, t.log.seen.damaged)
	default:
		if t.seq == t.from.Seq {
			t.first = f.Offset
		}
		t.seq = c.Batch
	}
	return nil
}

// follows reports whether a control record is the batch record of a batch that follows the slot's checkpoint.
func (t *tail) follows(c *change.Control) bool {
	return c.Slot == t.log.slot && c.Type == change.ControlBatch && c.Batch > t.from.Seq
}

// lookBack is how many control records before the checkpoint are read, to learn the slot's last record in each partition.
const lookBack = 1000

// tailStart is the offset to read the control partition from. The checkpoint's offset is trusted only when the record before
// it is the checkpoint's batch record (or, before the first batch, an open record of this slot): a topic that was deleted and
// recreated has the same name, and may have grown beyond the offset.
func (l *slotLog) tailStart(ctx context.Context, from sinks.Durable, start, end int64) (int64, error) {
	next, known := from.Offsets[l.control.Topic.Name][int(l.control.Index)]
	switch {
	case !known:
		return start, nil
	case start == next+1 && l.sink.cfg.Delivery == ExactlyOnce:
		return start, nil // everything has expired up to the marker of that batch's transaction
	case start > next:
		return 0, gone("%s/%d starts at offset %d, and the checkpoint is at %d", l.control.Topic.Name, l.control.Index, start, next)
	case next > end:
		return 0, gone("%s/%d ends at offset %d, and the checkpoint is at %d", l.control.Topic.Name, l.control.Index, end, next)
	case start == next:
		return next, nil // the record before it has expired
	}
	found := false
	before := l.controlRange(l.control.Index, max(start, next-lookBack), func(f consumer.Record) error {
		c := controlOf(f)
		found = f.Offset == next-1 && c.Slot == l.slot && c.Batch == from.Seq &&
			(c.Type == change.ControlBatch || from.Seq == 0 && c.Type == change.ControlOpen)
		if c.Slot == l.slot && c.Type == change.ControlBatch {
			l.sink.doubts.noteOwn(c, from.Offsets)
		}
		return nil
	})
	before.Committed = true // the last one is, and only it and what the checkpoint has count
	l.seen.own = true       // of another cluster there may be an open record, which was passed by before
	err := consumer.New(l.sink.client, before).ReadTo(ctx, next-1)
	if l.seen.own = found; err != nil {
		return 0, err
	}
	if !found {
		return 0, gone("%s/%d was recreated: offset %d is not batch %d%s", l.control.Topic.Name, l.control.Index, next-1, from.Seq,
			l.seen.damaged)
	}
	return next, nil
}

// logStart is the log start offset of the control partition.
func (l *slotLog) logStart(ctx context.Context) (int64, error) {
	starts, err := l.sink.client.Starts(ctx, l.control.Topic.Name)
	return starts[int(l.control.Index)], err
}
