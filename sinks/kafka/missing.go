package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
)

const (
	// gonePatience is how long a topic must be missing, or shorter than it was, before that is looked into.
	gonePatience = 3 * time.Second
	// unknownPatience is how long it must be missing where the controller does not tell.
	unknownPatience = 30 * time.Second
)

func noTopic(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic)
}

// deleted reports whether a topic is gone that a broker has not known since then. A broker that has just started, or that
// has lost its controller, does not know every topic, and for as long as that lasts. The controller does: asked to make
// the topic, though only to try, it says that it is there. Where it refuses to try, time decides.
func (c *client) deleted(ctx context.Context, topic string, since time.Time) (bool, error) {
	if time.Since(since) < gonePatience {
		return false, nil
	}
	m, err := c.roundTrip(ctx, &tryToMake{createtopics.Request{ValidateOnly: true, TimeoutMs: int32(c.cfg.RequestTimeout.Milliseconds()),
		Topics: []createtopics.RequestTopic{{Name: topic, NumPartitions: 1, ReplicationFactor: int16(c.cfg.ReplicationFactor)}}}})
	if err == nil {
		err = firstCode(m.(madeOrNot).Response)
	}
	v := judge(err)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, kafka.TopicAlreadyExists):
		return false, nil
	case v == retry, v == relearn:
		return false, fmt.Errorf("ask the controller for %s: %w", topic, err)
	}
	return time.Since(since) > unknownPatience, nil
}

func firstCode(res *createtopics.Response) error {
	if len(res.Topics) == 0 {
		return errors.New("it does not answer")
	}
	return codeError(res.Topics[0].ErrorCode)
}

// notSeen is what is waited out while a topic may be there that a broker does not know. It is to be asked again.
func notSeen(topic string) error { return fmt.Errorf("a broker does not know topic %s yet", topic) }

// exists waits until the topic is seen, or says that it is gone.
func (c *client) exists(ctx context.Context, topic string) error {
	since := time.Now()
	var missing error
	err := c.try(ctx, "find topic "+topic, func(ctx context.Context) error {
		_, err := c.leaders(ctx, topic)
		if !noTopic(err) {
			return err
		}
		deleted, err := c.deleted(ctx, topic, since)
		switch {
		case err != nil:
			return err
		case !deleted:
			return notSeen(topic)
		}
		missing = gone("topic %s", topic)
		return nil
	})
	return errors.Join(err, missing)
}
