package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/encoding"
)

// otherEncoding returns the error for a log whose last owner has written records with other keys. last is the last record that
// has an encoding; nil: there is none.
func (s *Sink) otherEncoding(last *change.Control) error {
	if last == nil {
		return nil
	}
	stored := cmp.Or(last.Encoding, encoding.Debezium)
	was, is := s.encodings[stored], s.encodings[s.cfg.Encoding]
	if was != nil && was.Keys() == is.Keys() {
		return nil
	}
	return &sinks.OtherEncodingError{Log: "Kafka's " + change.ControlTopic(s.cfg.TopicPrefix), Stored: stored, Found: is.Name(),
		Setting: "KUBECDC_KAFKA_TOPIC_PREFIX"}
}

// sampleEncoding learns the encoding from the data topics, which may be kept for longer than the control topic: from the last
// record of this cluster in any of them. nil: there is none.
func (s *Sink) sampleEncoding(ctx context.Context) (*change.Control, error) {
	var topics []string
	err := s.client.Try(ctx, "list the topics", func(ctx context.Context) (err error) {
		topics, err = s.client.Topics(ctx)
		return err
	})
	for _, topic := range topics {
		var r *consumer.Record
		if strings.HasPrefix(topic, s.cfg.TopicPrefix+".") {
			r, err = s.lastRecord(ctx, topic)
		}
		switch {
		case ofOneTopic[kafkaCode(err)] || cluster.NoTopic(err): // a refusal is left to the first write of the topic's streams
			err = nil
		case err != nil:
			return nil, err
		case r != nil:
			return &change.Control{Encoding: r.Headers[change.HeaderEncoding]}, nil
		}
	}
	return nil, err
}

// lastKey is the key of a topic's last record, if that is in Avro.
func (s *Sink) lastKey(ctx context.Context, topic string) ([]byte, error) {
	r, err := s.lastRecord(ctx, topic)
	if r == nil || r.Headers[change.HeaderEncoding] != encoding.Avro {
		return nil, err
	}
	return r.Key, err
}

// sampled is how many offsets before a partition's end are read, until there is a record of this cluster: the last offset is that
// of a transaction's marker, and compaction or other clusters may have left none nearby.
var sampled = []int64{2, 50, 2000}

// lastRecord returns key and headers of a late record of this cluster in a topic; nil: there is none.
func (s *Sink) lastRecord(ctx context.Context, topic string) (last *consumer.Record, err error) {
	starts, err := s.client.Starts(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends, err := s.client.Ends(ctx, topic)
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		for _, back := range sampled {
			first := max(end-back, starts[p])
			if last, err = s.lastOf(ctx, topic, int32(p), first, end); err != nil || last != nil {
				return last, err
			}
			if first == starts[p] {
				break
			}
		}
	}
	return nil, nil
}

func (s *Sink) lastOf(ctx context.Context, topic string, p int32, first, end int64) (last *consumer.Record, err error) {
	r := consumer.New(s.client, consumer.Range{Topic: topic, Partition: p, First: first, NoValues: true,
		Wanted: func(r *consumer.Record) bool {
			of := change.TopicOf(s.cfg.TopicPrefix, change.StreamID(r.Headers[change.HeaderStream]))
			if _, key, err := keyOf(s.encodings, r); err == nil && of == topic && key.Cluster == s.cfg.Cluster {
				last = &consumer.Record{Key: bytes.Clone(r.Key), Headers: r.Headers}
			}
			return false
		}})
	if err = r.ReadTo(ctx, end-1); errors.Is(err, consumer.ErrGone) {
		err = nil
	}
	return last, err
}
