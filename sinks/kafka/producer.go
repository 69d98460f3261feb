package kafka

import (
	"context"
	"fmt"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/producer"
)

// newProducer fences every earlier producer of the slot. At-least-once delivery fences by the same transactional id.
func (l *slotLog) newProducer(ctx context.Context, uid string) (*producer.Producer, error) {
	cfg := &l.sink.cfg
	return producer.New(ctx, l.sink.client, producer.Options{
		TransactionalID: cfg.TransactionalID(uid, l.slot), Idempotent: cfg.Delivery != ExactlyOnce,
		Timeout: cfg.TransactionTimeout, Codec: l.sink.codec, Source: l,
	})
}

// asInvalidWriter adds sinks.ErrInvalidWriter to the error of a fenced producer.
func asInvalidWriter(err error) error {
	if cluster.Judge(err) == cluster.Fenced {
		return fmt.Errorf("%w: %w", sinks.ErrInvalidWriter, err)
	}
	return err
}
