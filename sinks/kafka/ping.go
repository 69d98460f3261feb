package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
)

// Ping asks the brokers whether they can be reached and know us. A broker that can't be reached is not waited for; nothing is
// written. Which rights are missing Check says.
func (s *Sink) Ping(ctx context.Context) error {
	op := fmt.Sprintf("reach Kafka at %v (KUBECDC_KAFKA_BROKERS)", s.cfg.Brokers)
	_, err := s.client.leaders(ctx, change.ControlTopic(s.cfg.TopicPrefix))
	if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) && !errors.Is(err, kafka.TopicAuthorizationFailed) {
		return newError(op, err)
	}
	p := &producer{client: s.client, txnID: transactionalID(&s.cfg, s.cfg.ClusterUID, 0), coordinator: -1}
	// The first use ever makes the coordinator's own topic, which takes a moment.
	err = s.client.try(ctx, "find the coordinator of "+p.txnID, func(ctx context.Context) error {
		return p.askCoordinator(ctx, func() error { return nil })
	})
	if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
		return nil
	}
	return err
}
