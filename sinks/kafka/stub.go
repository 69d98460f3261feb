package kafka

import (
	"bytes"
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/producer"
)

// stub is written to a topic in place of a change whose record was not accepted.
type stub struct {
	change change.Change // with the images that fit
	letter change.DeadLetter
	omits  int // how many images are replaced: 1, the larger, or 2
}

// TooLarge writes the whole record to the dead-letter topic, in parts, and puts a stub in its place: with the larger image
// replaced, and both when that stub is refused too.
func (l *slotLog) TooLarge(ctx context.Context, p *producer.Partition, index int32, size int, cause error) error {
	c, topic := &l.batch.Changes[index], p.Topic.Name
	s := l.stubs[index]
	if s == nil {
		s = &stub{letter: change.DeadLetter{ID: deadLetterID(c), Error: cause.Error()}}
		if err := l.writeWhole(ctx, topic, index, s.letter); err != nil {
			return l.refusedLetter(topic, fmt.Errorf("write dead letter %s: %w", s.letter.ID, err))
		}
		l.sink.cfg.Logger.Warn("a record is too large or refused; the dead-letter topic has it, and its topic has a stub",
			"topic", topic, "object", c.Key(), "id", s.letter.ID, "reason", cause)
		l.stubs[index] = s
	}
	if s.omits == 2 {
		return l.refuse(topic, &Error{Op: "write the stub of " + c.Key() + " to " + topic, Err: cause,
			Hint: hints[kafka.MessageSizeTooLarge]}, probe{size: size})
	}
	s.omits++
	return s.fill(c)
}

// fill copies the change, with s.omits of its images replaced.
func (s *stub) fill(c *change.Change) (err error) {
	s.change = *c
	if s.omits == 2 || len(c.Before) >= len(c.After) {
		s.change.Before, err = change.Stub(c.Before)
	}
	if err == nil && (s.omits == 2 || len(c.After) > len(c.Before)) {
		s.change.After, err = change.Stub(c.After)
	}
	return err
}

func deadLetterID(c *change.Change) string {
	return c.UID + "/" + string(c.ResourceVersion) + "/" + c.Op.String()
}

// writeWhole writes a record's whole value to the dead-letter topic, under the record's key and headers.
func (l *slotLog) writeWhole(ctx context.Context, topic string, index int32, dead change.DeadLetter) error {
	c := &l.batch.Changes[index]
	v := l.envelope.Value(nil, c, nil)
	headers, n := l.changeHeaders(c, c.Op.String(), dead.ID)
	d := &letter{key: l.key(index), time: c.Time.UnixMilli(), headers: bytes.Clone(headers), count: n,
		whole: v.AppendTo(make([]byte, 0, v.Len()))}
	d.add(change.HeaderTopic, topic)
	d.add(change.HeaderReason, dead.Error)
	return l.writeLetter(ctx, d)
}
