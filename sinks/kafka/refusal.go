package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/producer"
)

// Failed turns an error that concerns only one resource's topic into a *sinks.RefusedError with all such topics of the batch.
func (l *slotLog) Failed(topic string, err error) error {
	if !cluster.OfOneTopic(err) || l.isShared(topic) {
		return nil
	}
	if !fault.Is[*Error](err) {
		err = l.sink.client.NewError("write to "+topic, err)
	}
	one := l.refuse(topic, err, probe{})
	if l.refused == nil {
		l.refused = &sinks.RefusedError{}
	}
	if !slices.ContainsFunc(l.refused.Refusals, func(r sinks.Refusal) bool { return r.Place == topic }) {
		l.refused.Refusals = append(l.refused.Refusals, one.Refusals...)
	}
	return l.refused
}

// refusedLetter does so with an error of the dead-letter topic, for the resource whose record needs a dead letter.
func (l *slotLog) refusedLetter(topic string, err error) error {
	if !cluster.OfOneTopic(err) && cluster.Judge(err) != cluster.TooLarge {
		return err
	}
	return l.refuse(topic, err, probe{letter: true})
}

// refusedToAdd does so with topics that could not be added to the transaction.
func (l *slotLog) refusedToAdd(err error) error {
	denied, ok := errors.AsType[producer.DeniedTopics](err)
	if !ok || slices.ContainsFunc(denied, l.isShared) {
		return err
	}
	all := &sinks.RefusedError{}
	for _, topic := range denied {
		err := l.sink.client.NewError("write to "+topic, kafka.TopicAuthorizationFailed)
		all.Refusals = append(all.Refusals, l.refuse(topic, err, probe{}).Refusals...)
	}
	return all
}

// refusedSchema does so with a schema that the registry refuses.
func (l *slotLog) refusedSchema(err error) error {
	if refused, ok := errors.AsType[*encoding.RegistryError](err); ok {
		return l.refuse(refused.Topic, refused, probe{schema: refused.Again})
	}
	return err
}

// isShared reports whether a topic is not one resource's own.
func (l *slotLog) isShared(topic string) bool {
	return topic == change.ControlTopic(l.envelope.Prefix) || topic == change.DeadLetterTopic(l.envelope.Prefix)
}

func (l *slotLog) refuse(topic string, err error, p probe) *sinks.RefusedError {
	p.sink, p.slot, p.topic = l.sink, l.slot, topic
	return &sinks.RefusedError{Refusals: []sinks.Refusal{{
		Place: topic, Err: err, Again: p.run,
		Refuses: func(r change.Resource) bool { return change.Topic(l.envelope.Prefix, r) == topic },
	}}}
}

// allRefused adds the refusals of the batch's other topics, so that the caller gets all of them at once.
func (l *slotLog) allRefused(ctx context.Context, b *change.Batch, first error) error {
	for i := range b.Changes {
		if _, err := l.topicOf(ctx, b.Changes[i].Stream); err != nil && !fault.Is[*sinks.RefusedError](err) {
			return err
		}
	}
	if l.refused == nil {
		return first
	}
	return l.refused
}

// probe finds out whether a topic that refused records would accept them now. It creates the topic if it is missing, and adds it
// to a transaction, which it aborts. It writes no record.
type probe struct {
	sink   *Sink
	slot   int
	topic  string
	letter bool                        // the dead-letter topic refused the records
	size   int                         // size of a stub's record batch that was too large, or 0 for another reason
	schema func(context.Context) error // registers a refused schema, or nil
}

func (p probe) run(ctx context.Context) error {
	topics := []string{p.topic}
	if p.letter {
		topics = append(topics, change.DeadLetterTopic(p.sink.cfg.TopicPrefix))
	}
	p.sink.topics.Forget(topics...)
	for _, name := range topics {
		if _, err := p.sink.topics.Topic(ctx, map[string]*producer.Topic{}, name); err != nil {
			return err
		}
	}
	if err := p.fits(ctx); err != nil {
		return err
	}
	if p.schema != nil {
		if err := p.schema(ctx); err != nil {
			return err
		}
	}
	return p.sink.topics.TryTransaction(ctx, fmt.Sprintf("slot-%d", p.slot), topics...)
}

// fits compares the record batch with the topic's limit. Without the right to read the limit, only a write can show it.
func (p probe) fits(ctx context.Context) error {
	if p.size == 0 {
		return nil
	}
	configs, _, err := p.sink.client.TopicConfigs(ctx, []string{p.topic}, admin.MaxMessageBytes)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(configs[p.topic][admin.MaxMessageBytes])
	if own := p.sink.cfg.MaxMessageBytes; err == nil && own > 0 {
		limit = min(limit, own)
	}
	if err == nil && p.size > limit {
		return &Error{Op: "write a stub to " + p.topic, Err: producer.LimitError{Size: p.size, Limit: limit},
			Hint: admin.HintTooLarge}
	}
	return nil
}
