package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/logread"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// letter is a dead letter: a value that goes to the dead-letter topic in parts that fit its limit.
type letter struct {
	key     []byte // the same for all parts, so they are on one partition
	time    int64
	headers recordbatch.Headers // the same for all parts
	value   []byte
}

// writeLetter writes the parts, all to one partition, which it adds to the transaction.
func (l *slotLog) writeLetter(ctx context.Context, d *letter) error {
	q, err := l.deadPartition(ctx, d.key)
	if err != nil {
		return err
	}
	for {
		err := l.writeParts(ctx, q, d)
		// No part is larger than the first. If that is refused, nothing was written.
		if err == nil || q.Acknowledged() > 0 || cluster.Judge(err) != cluster.TooLarge || q.Topic.Aim() <= producer.MinLimit {
			return err
		}
	}
}

func (l *slotLog) writeParts(ctx context.Context, q *producer.Partition, d *letter) error {
	size := max(q.Topic.Aim()-len(d.headers.Bytes)-len(d.key)-512, 256)
	parts := max((len(d.value)+size-1)/size, 1)
	shared := d.headers.Shared()
	recordbatch.AddHeader(&shared, change.HeaderParts, strconv.Itoa(parts))
	q.Clear()
	for i := range parts {
		part := d.value[i*size : min((i+1)*size, len(d.value))]
		headers := shared.Shared()
		recordbatch.AddHeader(&headers, change.HeaderPart, strconv.Itoa(i))
		q.QueueRecord(recordbatch.Record{Time: d.time, Key: d.key, Value: [][]byte{part}, Headers: headers})
	}
	return l.producer.Produce(ctx, q)
}

// deadPartition returns the partition for a letter.
func (l *slotLog) deadPartition(ctx context.Context, key []byte) (*producer.Partition, error) {
	if l.dead == nil {
		t, err := l.sink.topics.Topic(ctx, l.topics, change.DeadLetterTopic(l.envelope.Prefix))
		if err != nil {
			return nil, err
		}
		l.dead = t
	}
	q := l.dead.Partition(key)
	if slices.Contains(l.active, q) {
		return q, nil
	}
	l.active = append(l.active, q)
	return q, l.producer.Add(ctx, q)
}

// writeMalformed writes the events that could not be parsed, byte for byte.
func (l *slotLog) writeMalformed(ctx context.Context) error {
	for i := range l.batch.Malformed {
		m := &l.batch.Malformed[i]
		d := &letter{time: time.Now().UnixMilli(), value: m.Bytes, headers: l.shared.Shared(),
			key: fmt.Appendf(nil, `{"cluster":%s,"stream":%s}`, logread.JSON(l.envelope.Cluster), logread.JSON(string(m.Stream)))}
		id := l.batch.MalformedID(i)
		recordbatch.AddHeader(&d.headers, change.HeaderStream, m.Stream)
		recordbatch.AddHeader(&d.headers, change.HeaderReason, m.Reason)
		recordbatch.AddHeader(&d.headers, change.HeaderDeadLetter, id)
		if err := l.writeLetter(ctx, d); err != nil {
			topic := change.Topic(l.envelope.Prefix, change.ResourceOf(m.Stream))
			return l.refusedLetter(topic, fmt.Errorf("write dead letter %s: %w", id, err))
		}
		l.sink.cfg.Logger.Warn("an event from the API server can't be parsed; its bytes are in the dead-letter topic",
			"stream", m.Stream, "id", id, "bytes", len(m.Bytes), "reason", m.Reason)
	}
	return nil
}
