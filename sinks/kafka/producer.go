package kafka

import (
	"context"
	"fmt"

	"kubecdc/sinks/kafka/internal/producer"
)

// transactionalID names the slot's writer. The cluster's uid is part of it, so that another cluster of the same name is not
// fenced.
func transactionalID(cfg *Config, uid string, slot int) string {
	return fmt.Sprintf("%s-%s-%s-slot-%d", cfg.TopicPrefix, cfg.Cluster, uid, slot)
}

// transactionalPrefix is what all transactional ids of the cluster begin with.
func (s *Sink) transactionalPrefix() string { return s.cfg.TopicPrefix + "-" + s.cfg.Cluster + "-" }

// newProducer fences every earlier producer of the slot. At-least-once delivery fences by the same transactional id.
func (l *slotLog) newProducer(ctx context.Context, uid string) (*producer.Producer, error) {
	cfg := &l.sink.cfg
	return producer.New(ctx, l.sink.client, producer.Options{
		TransactionalID: transactionalID(cfg, uid, l.slot), Idempotent: cfg.Delivery != ExactlyOnce,
		Timeout: cfg.TransactionTimeout, Codec: l.sink.codec, Source: l,
	})
}
