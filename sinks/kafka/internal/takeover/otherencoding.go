package takeover

import (
	"cmp"
	"context"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/cluster"
)

// otherEncoding returns the error for a log whose last owner has written records with other keys. last is the last record with an
// encoding, or nil.
func (s *Shared) otherEncoding(last *change.Control) error {
	if last == nil {
		return nil
	}
	stored := cmp.Or(last.Encoding, encoding.Debezium)
	was, now := s.Encodings[stored], s.Encodings[s.Config.Encoding]
	if was != nil && was.Keys() == now.Keys() {
		return nil
	}
	return &sinks.OtherEncodingError{Log: "Kafka's " + s.ControlTopic(), Stored: stored, Found: now.Name(),
		Setting: "KUBECDC_KAFKA_TOPIC_PREFIX"}
}

// sampleEncoding finds the encoding from the data topics, which may be retained for longer than the control topic. It uses the
// last record of this cluster in any of them, or returns nil.
func (s *Shared) sampleEncoding(ctx context.Context) (*change.Control, error) {
	topics, err := s.Topics(ctx)
	for _, topic := range topics {
		r, err := s.Last(ctx, topic)
		switch {
		case cluster.OfOneTopic(err): // the first write to the topic reports it
		case err != nil:
			return nil, err
		case r != nil:
			return &change.Control{Encoding: r.Headers[change.HeaderEncoding]}, nil
		}
	}
	return nil, err
}
