package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Identity is the Kafka cluster's own id, whichever brokers were named, and the topics' prefix. It waits until a broker
// can be asked.
func (s *Sink) Identity(ctx context.Context) (identity string, err error) {
	err = s.client.try(ctx, "ask which Kafka cluster it is", func(ctx context.Context) error {
		m, err := s.client.roundTrip(ctx, &metadata.Request{TopicNames: []string{}})
		if err == nil {
			identity = fmt.Sprintf("kafka:%s/%s", m.(*metadata.Response).ClusterID, s.cfg.TopicPrefix)
		}
		return err
	})
	return identity, err
}
