package logread

import (
	"bytes"
	"context"
	"errors"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
)

// sampled is how many offsets before a partition's end are read, until a record of this cluster is found. The last offset is a
// transaction's marker. Compaction or other clusters may have left no record near the end.
var sampled = []int64{2, 50, 2000}

// Last returns key and headers of a late record of this cluster in a topic, or nil.
func (l *Log) Last(ctx context.Context, topic string) (last *consumer.Record, err error) {
	starts, ends, err := l.Client.Bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		for _, back := range sampled {
			first := max(end-back, starts[p])
			if last, err = l.lastOf(ctx, topic, int32(p), first, end); err != nil || last != nil {
				return last, err
			}
			if first == starts[p] {
				break
			}
		}
	}
	return nil, nil
}

func (l *Log) lastOf(ctx context.Context, topic string, p int32, first, end int64) (last *consumer.Record, err error) {
	r := consumer.New(l.Client, consumer.Range{Topic: topic, Partition: p, First: first, NoValues: true,
		Wanted: func(r *consumer.Record) bool {
			expected := change.TopicOf(l.Envelope.Prefix, change.StreamID(r.Headers[change.HeaderStream]))
			if _, key, err := l.Key(r); err == nil && expected == topic && key.Cluster == l.Envelope.Cluster {
				last = &consumer.Record{Key: bytes.Clone(r.Key), Headers: r.Headers}
			}
			return false
		}})
	if err = r.ReadTo(ctx, end-1); errors.Is(err, consumer.ErrGone) {
		err = nil
	}
	return last, err
}
