package kafka

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// letter is what is to stand in the dead-letter topic, in parts that each fit.
type letter struct {
	key     []byte // all parts go to its partition
	time    int64
	headers []byte // which all parts have
	count   int    // how many headers these are
	whole   []byte
}

// add appends a header.
func (d *letter) add(name, value string) {
	d.headers = recordbatch.AppendHeader(d.headers, name, value)
	d.count++
}

// writeLetter writes the parts, all to one partition, which is made part of the transaction.
func (l *slotLog) writeLetter(ctx context.Context, d *letter) error {
	q, err := l.deadPartition(ctx, d.key)
	if err != nil {
		return err
	}
	for {
		err := l.writeParts(ctx, q, d)
		// The first part is as large as any: when it was refused, nothing was written.
		if err == nil || q.next > 0 || judge(err) != refused || q.topic.aim <= minLimit {
			return err
		}
	}
}

func (l *slotLog) writeParts(ctx context.Context, q *partition, d *letter) error {
	size := max(q.topic.aim-len(d.headers)-len(d.key)-512, 256)
	parts := max((len(d.whole)+size-1)/size, 1)
	shared := recordbatch.AppendHeader(d.headers[:len(d.headers):len(d.headers)], change.HeaderParts, strconv.Itoa(parts))
	q.records, q.next, q.pending, q.most = q.records[:0], 0, nil, 0
	for i := range parts {
		part := d.whole[i*size : min((i+1)*size, len(d.whole))]
		q.records = append(q.records, recordbatch.Record{
			Time: d.time, Key: d.key, Value: [][]byte{part}, HeaderCount: d.count + 2,
			Headers: recordbatch.AppendHeader(shared[:len(shared):len(shared)], change.HeaderPart, strconv.Itoa(i)),
		})
	}
	return l.produce(ctx, []*partition{q})
}

// deadPartition gives the partition for a letter.
func (l *slotLog) deadPartition(ctx context.Context, key []byte) (*partition, error) {
	if l.dead == nil {
		t, err := l.topic(ctx, change.DeadLetterTopic(l.envelope.Prefix), deadLetterTopic)
		if err != nil {
			return nil, err
		}
		l.dead = t
	}
	q := l.dead.partitionOf(key)
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

// writeMalformed writes what the API server sent and nobody could read, as it came.
func (l *slotLog) writeMalformed(ctx context.Context) error {
	for i := range l.batch.Malformed {
		m := &l.batch.Malformed[i]
		d := &letter{time: time.Now().UnixMilli(), whole: m.Bytes, headers: append([]byte(nil), l.shared...), count: l.sharedCount,
			key: fmt.Appendf(nil, `{"cluster":%s,"stream":%s}`, mustJSON(l.envelope.Cluster), mustJSON(string(m.Stream)))}
		id := l.batch.MalformedID(i)
		d.add(change.HeaderStream, string(m.Stream))
		d.add(change.HeaderReason, m.Reason)
		d.add(change.HeaderDeadLetter, id)
		if err := l.writeLetter(ctx, d); err != nil {
			return l.refusedLetter(change.Topic(l.envelope.Prefix, change.ResourceOf(m.Stream)), fmt.Errorf("write dead letter %s: %w", id, err))
		}
		l.sink.cfg.Logger.Warn("what the API server sent can't be read: it stands in the dead-letter topic as it came",
			"stream", m.Stream, "id", id, "bytes", len(m.Bytes), "reason", m.Reason)
	}
	return nil
}
