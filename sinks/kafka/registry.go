package kafka

import (
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/encoding/registry"
)

const (
	// readerPatience is how long a command waits for a registry that does not answer. An exporter has no limit.
	readerPatience = 30 * time.Second
	// lastAnswer is how long the registry may still take when the session must end.
	lastAnswer = time.Second
)

// awaitSchemas repeats an attempt to get schemas from the registry and the API server, and reports it like an attempt with Kafka.
// No transaction is open meanwhile, so the slot waits until its session must end.
func (s *Sink) awaitSchemas(ctx context.Context, op string, attempt func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	session := sinks.SessionOf(ctx)
	defer context.AfterFunc(session, func() {
		time.AfterFunc(lastAnswer, func() { end(context.Cause(session)) })
	})()
	a := s.client.AttemptsElsewhere(op)
	defer a.Done()
	for {
		err := attempt(ctx)
		if err == nil || s.isFinal(err, a.Since) {
			return err
		}
		if err := a.Next(ctx, err); err != nil {
			return err
		}
	}
}

// isFinal reports whether an error about schemas ends the attempts. For an exporter only a refusal of one topic's schemas does,
// which ends only that topic's streams. Other answers must be corrected in the registry, which is possible while the slot waits.
func (s *Sink) isFinal(err error, since time.Time) bool {
	exports := s.cfg.Schemas != nil
	return fault.Is[*encoding.RegistryError](err) || !exports && (registry.Answered(err) || time.Since(since) > readerPatience)
}

// lastKey returns the key of a topic's last record, if it is in Avro.
func (s *Sink) lastKey(ctx context.Context, topic string) ([]byte, error) {
	r, err := s.log.Last(ctx, topic)
	if r == nil || r.Headers[change.HeaderEncoding] != encoding.Avro {
		return nil, err
	}
	return r.Key, err
}
