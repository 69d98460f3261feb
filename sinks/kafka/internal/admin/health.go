package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
)

// Ping tests whether a broker can be reached and accepts the login. It does not wait for a broker that is down, and writes
// nothing. Check reports missing rights.
func (a *Admin) Ping(ctx context.Context) error {
	_, err := a.client.Leaders(ctx, change.ControlTopic(a.cfg.TopicPrefix))
	if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) && !errors.Is(err, kafka.TopicAuthorizationFailed) {
		return a.client.NewError(fmt.Sprintf("reach Kafka at %v (KUBECDC_KAFKA_BROKERS)", a.cfg.Brokers), err)
	}
	// The first call in a cluster creates the coordinator's own topic, which takes a moment.
	id := a.cfg.TransactionalID(a.cfg.ClusterUID, 0)
	err = a.client.Try(ctx, "find the coordinator of "+id, func(ctx context.Context) error {
		_, err := a.client.Coordinator(ctx, id)
		return err
	})
	if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
		return nil
	}
	return err
}

// Probe sends a request to every broker that the cluster names, without a retry.
func (a *Admin) Probe(ctx context.Context) error {
	if err := a.client.PingAll(ctx); err != nil {
		return a.client.NewError(fmt.Sprintf("get an answer from every broker of Kafka at %v", a.cfg.Brokers), err)
	}
	return nil
}

// Identity returns the Kafka cluster's own id, whichever brokers were named, and the topics' prefix. It waits until a broker
// answers.
func (a *Admin) Identity(ctx context.Context) (identity string, err error) {
	err = a.client.Try(ctx, "ask which Kafka cluster it is", func(ctx context.Context) error {
		id, err := a.client.ID(ctx)
		identity = "kafka:" + id + "/" + a.cfg.TopicPrefix
		return err
	})
	return identity, err
}
