package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Ping reaches a broker and logs in; nothing is written.
func (s *Sink) Ping(ctx context.Context) error {
	if _, err := s.client.roundTrip(ctx, &metadata.Request{TopicNames: []string{}}); err != nil {
		return fmt.Errorf("reach Kafka at %v (KUBECDC_KAFKA_BROKERS): %w", s.cfg.Brokers, err)
	}
	return nil
}
