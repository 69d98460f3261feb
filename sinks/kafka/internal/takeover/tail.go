package takeover

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/settings"
)

// withTail joins the error of a lost tail with the log's other losses, which may be nil.
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

// tail is the control topic after the checkpoint: the slot's batch records, in order and without a hole. They may be many, so
// they are read twice. The first time is here, to know before a write that none is missing. The second time is in readTail, which
// reads the changes of one batch after another.
type tail struct {
	log    *Slot
	from   sinks.Durable
	reader *consumer.Reader
	first  int64  // the offset of the first batch record
	seq    uint64 // the last batch
	lost   error  // why the batches can't be read one by one, or nil
}

// beginTail reads up to the topic's current end.
func (l *Slot) beginTail(ctx context.Context, from sinks.Durable, end int64) (*tail, error) {
	t := &tail{log: l, from: from, seq: from.Seq}
	starts, err := l.Client.Starts(ctx, l.ControlTopic())
	if err != nil {
		return nil, err
	}
	start, id := starts[int(l.control.Index)], from.Offsets[l.ControlTopic()][change.TopicID]
	l.ids.stored[l.ControlTopic()] = id != 0
	var first int64
	if l.ids.differs(l.ControlTopic(), id) {
		err = gone("%s was deleted and made again", l.ControlTopic())
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
	t.reader = consumer.New(l.Client, l.controls(l.control.Index, first, t.add))
	return t, t.reader.ReadTo(ctx, end-1)
}

// end reads the rest, up to this owner's open record.
func (t *tail) end(ctx context.Context) error {
	err := t.reader.ReadTo(ctx, t.log.openOffset-1)
	if errors.Is(err, consumer.ErrGone) {
		t.lost = err
	} else if err != nil {
		return err
	}
	return t.log.checkEpoch()
}

func (t *tail) add(c logread.Control) error {
	switch {
	case t.lost != nil || !t.follows(c):
	case c.Batch != t.seq+1:
		t.lost = gone("batch %d follows batch %d in %s%s", c.Batch, t.seq, t.log.ControlTopic(), t.log.seen.damaged)
	default:
		if t.seq == t.from.Seq {
			t.first = c.Offset
		}
		t.seq = c.Batch
	}
	return nil
}

// follows reports whether a control record is the batch record of a batch after the slot's checkpoint.
func (t *tail) follows(c logread.Control) bool {
	return c.Slot == t.log.slot && c.Type == change.ControlBatch && c.Batch > t.from.Seq
}

// readBefore is how many control records before the checkpoint are read to find the slot's last record in each partition.
const readBefore = 1000

// tailStart returns the offset from which to read the control partition. It trusts the checkpoint's offset only if the
// checkpoint's batch record precedes it, or before the first batch an open record of this slot. A topic that was deleted and
// recreated has the same name, and may have grown to more than the offset.
func (l *Slot) tailStart(ctx context.Context, from sinks.Durable, start, end int64) (int64, error) {
	next, known := from.Offsets[l.ControlTopic()][int(l.control.Index)]
	switch {
	case !known:
		return start, nil
	case start == next+1 && l.Config.Delivery == settings.ExactlyOnce:
		return start, nil // everything has expired up to the marker of that batch's transaction
	case start > next:
		return 0, gone("%s/%d starts at offset %d, and the checkpoint is at %d", l.ControlTopic(), l.control.Index, start, next)
	case next > end:
		return 0, gone("%s/%d ends at offset %d, and the checkpoint is at %d", l.ControlTopic(), l.control.Index, end, next)
	case start == next:
		return next, nil // the record before it has expired
	}
	found := false
	before := l.controls(l.control.Index, max(start, next-readBefore), func(c logread.Control) error {
		found = c.Offset == next-1 && c.Slot == l.slot && c.Batch == from.Seq &&
			(c.Type == change.ControlBatch || from.Seq == 0 && c.Type == change.ControlOpen)
		if c.Slot == l.slot && c.Type == change.ControlBatch {
			l.Doubts.addOwn(c, from.Offsets)
		}
		return nil
	})
	before.Committed = true // only the last one and the checkpoint's batches count
	l.seen.own = true       // an earlier open record of another cluster was skipped before
	err := consumer.New(l.Client, before).ReadTo(ctx, next-1)
	l.seen.own = found
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, gone("%s/%d was recreated: offset %d is not batch %d%s", l.ControlTopic(), l.control.Index, next-1, from.Seq,
			l.seen.damaged)
	}
	return next, nil
}
