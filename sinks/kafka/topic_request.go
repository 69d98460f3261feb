package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// kafka-go answers questions about topics from its own view of the cluster, in which a topic that may not be seen looks
// as if it were not there. A broker tells the two apart. What is split passes the view, even if it is into one part.
type topicRequest struct{ metadata.Request }

type topicResponse struct{ *metadata.Response }

var (
	_ protocol.Splitter = (*topicRequest)(nil)
	_ protocol.Merger   = (*topicRequest)(nil)
)

func (r *topicRequest) Split(protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return []protocol.Message{&r.Request}, r, nil
}

func (r *topicRequest) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	m, err := protocol.Result(results[0])
	if err != nil {
		return nil, err
	}
	return topicResponse{m.(*metadata.Response)}, nil
}

// whyUnknown asks a broker about a topic that our view of the cluster does not have. Its error is
// kafka.UnknownTopicOrPartition only where there is no such topic.
func (c *client) whyUnknown(ctx context.Context, topic string) error {
	m, err := c.roundTrip(ctx, &topicRequest{metadata.Request{TopicNames: []string{topic}}})
	if err != nil {
		return err
	}
	topics := m.(topicResponse).Topics
	switch {
	case len(topics) != 1:
		return fmt.Errorf("topic %s: %w", topic, kafka.UnknownTopicOrPartition)
	case topics[0].ErrorCode != 0:
		return fmt.Errorf("topic %s: %w", topic, codeError(topics[0].ErrorCode))
	}
	return fmt.Errorf("topic %s is not in our view of the cluster yet: %w", topic, kafka.LeaderNotAvailable)
}
