package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"kubecdc/change"
)

// burial is what stands in the log for a change whose record was not accepted.
type burial struct {
	stub change.Change // with the images that fit
	dead change.DeadLetter
	tier int // how much of the images was left out: 1 the larger, 2 both
}

// bury writes the whole record to the dead-letter topic, in parts, and puts a stub in its place. The stub has the
// larger image replaced; when that too is refused, both.
func (l *slotLog) bury(ctx context.Context, p *partition, index int32, cause error) error {
	c := &l.batch.Changes[index]
	b := l.buried[index]
	if b == nil {
		b = &burial{dead: change.DeadLetter{ID: deadLetterID(c), Error: cause.Error()}}
		if err := l.writeDeadLetter(ctx, p, index, b.dead); err != nil {
			return fmt.Errorf("write dead letter %s: %w", b.dead.ID, err)
		}
		l.sink.cfg.Logger.Warn("a record is too large or refused: it stands in the dead-letter topic, a stub in its place",
			"topic", p.topic.name, "object", c.Key(), "id", b.dead.ID, "reason", cause)
		l.buried[index] = b
	}
	if b.tier == 2 {
		return &Error{Op: "write the stub of " + c.Key() + " to " + p.topic.name, Err: cause}
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
	return c.UID + "/" + c.ResourceVersion + "/" + c.Op.String()
}

// writeDeadLetter writes the record's value in parts that each fit, all to one partition.
func (l *slotLog) writeDeadLetter(ctx context.Context, p *partition, index int32, dead change.DeadLetter) error {
	q, err := l.deadPartition(ctx, index)
	if err != nil {
		return err
	}
	v := l.envelope.Value(nil, &l.batch.Changes[index], nil)
	whole := v.AppendTo(make([]byte, 0, v.Len()))
	for {
		err := l.writeParts(ctx, p, q, index, dead, whole)
		// The first part is as large as any: when it was refused, nothing was written.
		if err == nil || q.next > 0 || judge(err) != refused || q.topic.aim <= minLimit {
			return err
		}
	}
}

func (l *slotLog) writeParts(ctx context.Context, p, q *partition, index int32, dead change.DeadLetter, whole []byte) error {
	c := &l.batch.Changes[index]
	headers, n := l.changeHeaders(c, dead.ID)
	headers = bytes.Clone(headers)
	size := max(q.topic.aim-len(headers)-len(dead.Error)-len(l.key(index))-512, 256)
	parts := (len(whole) + size - 1) / size
	headers = appendHeader(headers, change.HeaderTopic, p.topic.name)
	headers = appendHeader(headers, change.HeaderReason, dead.Error)
	headers = appendHeader(headers, change.HeaderParts, strconv.Itoa(parts))
	q.records, q.next, q.pending, q.most = q.records[:0], 0, nil, 0
	for i := range parts {
		part := whole[i*size : min((i+1)*size, len(whole))]
		h := appendHeader(headers[:len(headers):len(headers)], change.HeaderPart, strconv.Itoa(i))
		q.records = append(q.records, record{
			time: c.Time.UnixMilli(), key: l.key(index), value: change.Value{part}, headers: h, headerCount: n + 4,
		})
	}
	return l.produce(ctx, []*partition{q})
}

// deadPartition gives the partition for the parts, which is made part of the transaction.
func (l *slotLog) deadPartition(ctx context.Context, index int32) (*partition, error) {
	if l.dead == nil {
		t, err := l.topic(ctx, change.DeadLetterTopic(l.envelope.Prefix), deadLetterTopicConfig)
		if err != nil {
			return nil, err
		}
		l.dead = t
	}
	q := l.dead.partitionOf(l.key(index))
	if q.inTxn {
		return q, nil
	}
	for _, p := range l.active {
		if p == q {
			return q, nil
		}
	}
	l.active = append(l.active, q)
	return q, l.producer.add(ctx, []*partition{q})
}
