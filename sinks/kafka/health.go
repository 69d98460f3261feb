package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
)

// Ping tests whether a broker can be reached and accepts the login. It does not wait for a broker that is down, and writes
// nothing. Missing rights are reported by Check.
func (s *Sink) Ping(ctx context.Context) error {
	_, err := s.client.Leaders(ctx, change.ControlTopic(s.cfg.TopicPrefix))
	if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) && !errors.Is(err, kafka.TopicAuthorizationFailed) {
		return s.client.NewError(fmt.Sprintf("reach Kafka at %v (KUBECDC_KAFKA_BROKERS)", s.cfg.Brokers), err)
	}
	// The first use ever creates the coordinator's own topic, which takes a moment.
	id := transactionalID(&s.cfg, s.cfg.ClusterUID, 0)
	err = s.client.Try(ctx, "find the coordinator of "+id, func(ctx context.Context) error {
		_, err := s.client.Coordinator(ctx, id)
		return err
	})
	if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
		return nil
	}
	return err
}

// Probe asks every broker that the cluster names for an answer, without a retry.
func (s *Sink) Probe(ctx context.Context) error {
	if err := s.client.PingAll(ctx); err != nil {
		return s.client.NewError(fmt.Sprintf("get an answer from every broker of Kafka at %v", s.cfg.Brokers), err)
	}
	return nil
}
