package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
)

const (
	// MissingPatience is how long a topic must be missing before the controller is asked whether it was deleted.
	MissingPatience = 3 * time.Second
	// unknownPatience is how long a topic must be missing if the controller does not answer.
	unknownPatience = 30 * time.Second
)

// Deleted reports whether a topic was deleted, given the time since which a broker has not known it. A broker that has just
// started, or that has lost its controller, does not know every topic until it catches up. But the controller does: if it
// refuses to create the topic in a request that only validates, the topic exists. If the controller refuses that request
// itself, time decides.
func (c *Client) Deleted(ctx context.Context, topic string, since time.Time) (bool, error) {
	if time.Since(since) < MissingPatience {
		return false, nil
	}
	res, err := c.CreateTopics(ctx, true, createtopics.RequestTopic{Name: topic, NumPartitions: 1})
	if err == nil {
		if len(res) == 0 {
			return false, fmt.Errorf("the controller does not answer for %s", topic)
		}
		err = CodeError(res[0].ErrorCode)
	}
	v := Judge(err)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, kafka.TopicAlreadyExists):
		return false, nil
	case v == Retry, v == Refresh:
		return false, fmt.Errorf("ask the controller for %s: %w", topic, err)
	}
	return time.Since(since) > unknownPatience, nil
}

// ErrUnknownYet returns the error to retry while a topic may exist that a broker does not know.
func ErrUnknownYet(topic string) error {
	return fmt.Errorf("a broker does not know topic %s yet", topic)
}

// Exists waits until a broker knows the topic, or until the topic is known to be deleted. since is when a topic was first missed,
// so that a search for many topics waits once.
func (c *Client) Exists(ctx context.Context, topic string, since time.Time) (exists bool, err error) {
	err = c.Try(ctx, "find topic "+topic, func(ctx context.Context) error {
		_, err := c.Leaders(ctx, topic)
		if !NoTopic(err) {
			exists = err == nil
			return err
		}
		deleted, err := c.Deleted(ctx, topic, since)
		if err == nil && !deleted {
			err = ErrUnknownYet(topic)
		}
		return err
	})
	return exists, err
}
