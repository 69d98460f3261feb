package kafka

import (
	"bytes"
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
)

// burial is what stands in the log for a change whose record was not accepted.
type burial struct {
	stub change.Change // with the images that fit
	dead change.DeadLetter
	tier int // how much of the images was left out: 1 the larger, 2 both
}

// bury writes the whole record to the dead-letter topic, in parts, and puts a stub in its place. The stub has the
// larger image replaced; when that too is refused, both. size is of the record batch that was not accepted.
func (l *slotLog) bury(ctx context.Context, p *partition, index int32, size int, cause error) error {
	c := &l.batch.Changes[index]
	b := l.buried[index]
	if b == nil {
		b = &burial{dead: change.DeadLetter{ID: deadLetterID(c), Error: cause.Error()}}
		if err := l.writeWhole(ctx, p, index, b.dead); err != nil {
			return l.refusedLetter(p.topic.name, fmt.Errorf("write dead letter %s: %w", b.dead.ID, err))
		}
		l.sink.cfg.Logger.Warn("a record is too large or refused: it stands in the dead-letter topic, a stub in its place",
			"topic", p.topic.name, "object", c.Key(), "id", b.dead.ID, "reason", cause)
		l.buried[index] = b
	}
	if b.tier == 2 {
		return l.refuse(p.topic.name, &Error{Op: "write the stub of " + c.Key() + " to " + p.topic.name, Err: cause,
			Hint: hints[kafka.MessageSizeTooLarge]}, probe{size: size})
	}
	b.tier++
	return b.makeStub(c)
}

func (b *burial) makeStub(c *change.Change) (err error) {
	b.stub = *c
	if b.tier == 2 || len(c.Before) >= len(c.After) {
		b.stub.Before, err = change.Stub(c.Before)
	}
	if err == nil && (b.tier == 2 || len(c.After) > len(c.Before)) {
		b.stub.After, err = change.Stub(c.After)
	}
	return err
}

func deadLetterID(c *change.Change) string {
	return c.UID + "/" + string(c.ResourceVersion) + "/" + c.Op.String()
}

// writeWhole writes a record's whole value to the dead-letter topic, under the record's key and headers.
func (l *slotLog) writeWhole(ctx context.Context, p *partition, index int32, dead change.DeadLetter) error {
	c := &l.batch.Changes[index]
	v := l.envelope.Value(nil, c, nil)
	headers, n := l.changeHeaders(c, dead.ID)
	d := &letter{key: l.key(index), time: c.Time.UnixMilli(), headers: bytes.Clone(headers), count: n,
		whole: v.AppendTo(make([]byte, 0, v.Len()))}
	d.add(change.HeaderTopic, p.topic.name)
	d.add(change.HeaderReason, dead.Error)
	return l.writeLetter(ctx, d)
}
