package kafka

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// stub says what is left out of a refused record.
type stub struct {
	letter        change.DeadLetter
	omits         int    // 1: the object after the change, 2: both images
	before, after []byte // as they were
}

// TooLarge writes the complete record to the dead-letter topic, in parts, and replaces the object after the change by a stub. It
// replaces the before-image only if the record is refused again, although an earlier record of the log has that image.
func (l *slotLog) TooLarge(ctx context.Context, p *producer.Partition, index int32, size int, cause error) error {
	if raised, err := l.raised(ctx, p.Topic, cause); raised || err != nil {
		return err
	}
	c, topic := &l.batch.Changes[index], p.Topic.Name
	s := l.stubs[index]
	if s == nil {
		s = &stub{letter: change.DeadLetter{ID: c.ID(), Error: cause.Error()}, before: c.Before, after: c.After}
		if err := l.writeDeadLetter(ctx, topic, index, s.letter); err != nil {
			return l.refusedLetter(topic, fmt.Errorf("write dead letter %s: %w", s.letter.ID, err))
		}
		l.sink.cfg.Logger.Warn("a record is too large or refused; the dead-letter topic has it, and its topic has a stub",
			"topic", topic, "object", c.Key(), "id", s.letter.ID, "reason", cause)
		l.stubs[index] = s
	}
	if s.omits == 2 {
		return l.refuse(topic, &Error{Op: "write the stub of " + c.Key() + " to " + topic, Err: cause,
			Hint: admin.HintTooLarge}, probe{size: size})
	}
	if s.omits++; s.omits == 1 && c.After != nil {
		return l.omitAfter(index)
	}
	s.omits = 2
	var err error
	c.Before, err = change.Stub(c.Before)
	return err
}

// raised reports whether somebody has raised the topic's limit since it was read. It returns false for a record that the broker
// itself has refused.
func (l *slotLog) raised(ctx context.Context, t *producer.Topic, cause error) (bool, error) {
	if !fault.Is[producer.LimitError](cause) {
		return false, nil
	}
	limit, err := l.sink.topics.Limit(ctx, t.Name)
	return err == nil && t.Raise(limit), err
}

// omitAfter replaces the object after a change by its stub, in the batch. So the checkpoint gets what the log has. It is also the
// before-image of the object's next change, in this batch or a later one.
func (l *slotLog) omitAfter(index int32) error {
	c := &l.batch.Changes[index]
	image := c.After
	stub, err := change.Stub(image)
	if err != nil {
		return err
	}
	c.After = stub
	for i := index + 1; int(i) < len(l.batch.Changes); i++ {
		if next := &l.batch.Changes[i]; len(next.Before) == len(image) && &next.Before[0] == &image[0] {
			next.Before = stub
		}
	}
	return nil
}

// restore takes the stubs out of a batch that was not written.
func (l *slotLog) restore() {
	made := map[*byte][]byte{} // what each stub is in the place of
	for index, s := range l.stubs {
		c := &l.batch.Changes[index]
		if len(c.After) > 0 {
			made[&c.After[0]] = s.after
		}
		c.Before, c.After = s.before, s.after
	}
	for i := range l.batch.Changes {
		if c := &l.batch.Changes[i]; len(c.Before) > 0 && made[&c.Before[0]] != nil {
			c.Before = made[&c.Before[0]]
		}
	}
}

// writeDeadLetter writes a record as Debezium's JSON to the dead-letter topic, whatever the encoding of its own topic.
func (l *slotLog) writeDeadLetter(ctx context.Context, topic string, index int32, dead change.DeadLetter) error {
	c := &l.batch.Changes[index]
	v := l.envelope.Value(nil, c, nil)
	d := &letter{key: l.key(index), time: c.Time.UnixMilli(), headers: l.changeHeaders(c, c.Op.String(), dead.ID).Shared(),
		value: v.AppendTo(make([]byte, 0, v.Len()))}
	recordbatch.AddHeader(&d.headers, change.HeaderTopic, topic)
	recordbatch.AddHeader(&d.headers, change.HeaderReason, dead.Error)
	return l.writeLetter(ctx, d)
}
