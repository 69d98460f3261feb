package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ID returns the cluster's own id (cluster.id), whichever brokers were named.
func (c *Client) ID(ctx context.Context) (string, error) {
	m, err := c.RoundTrip(ctx, &metadata.Request{TopicNames: []string{}})
	if err != nil {
		return "", err
	}
	return m.(*metadata.Response).ClusterID, nil
}

// Topics returns the names of all topics that the user may see. It asks a broker, since the client's view of the cluster may lack
// new topics.
func (c *Client) Topics(ctx context.Context) (names []string, err error) {
	topics, err := c.Describe(ctx, nil)
	for _, t := range topics {
		names = append(names, *t.Topic)
	}
	slices.Sort(names)
	return names, err
}

// Leaders returns the leader of each partition of a topic, from the client's view of the cluster. A partition without a leader
// has -1. The error is kafka.UnknownTopicOrPartition only if a broker says that there is no such topic.
func (c *Client) Leaders(ctx context.Context, topic string) ([]int32, error) {
	all, err := c.LeadersOf(ctx, topic)
	return all[topic], err
}

// LeadersOf returns the leaders of several topics with one request.
func (c *Client) LeadersOf(ctx context.Context, topics ...string) (map[string][]int32, error) {
	m, err := c.RoundTrip(ctx, &metadata.Request{TopicNames: topics})
	if err != nil {
		return nil, err
	}
	all := make(map[string][]int32, len(topics))
	for i := range m.(*metadata.Response).Topics {
		t := &m.(*metadata.Response).Topics[i]
		if all[t.Name], err = c.leadersOf(ctx, t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *Client) leadersOf(ctx context.Context, t *metadata.ResponseTopic) ([]int32, error) {
	if t.ErrorCode == int16(kafka.UnknownTopicOrPartition) {
		return nil, c.whyUnknown(ctx, t.Name)
	}
	if t.ErrorCode != 0 {
		return nil, fmt.Errorf("topic %s: %w", t.Name, CodeError(t.ErrorCode))
	}
	leaders := make([]int32, len(t.Partitions))
	for _, p := range t.Partitions {
		if int(p.PartitionIndex) < len(leaders) {
			leaders[p.PartitionIndex] = p.LeaderID
		}
	}
	return leaders, nil
}

// whyUnknown asks a broker about a topic that is not in the client's view of the cluster.
func (c *Client) whyUnknown(ctx context.Context, topic string) error {
	topics, err := c.Describe(ctx, []string{topic})
	switch {
	case err != nil:
		return err
	case len(topics) != 1:
		return fmt.Errorf("topic %s: %w", topic, kafka.UnknownTopicOrPartition)
	case topics[0].ErrorCode != 0:
		return fmt.Errorf("topic %s: %w", topic, CodeError(topics[0].ErrorCode))
	}
	return fmt.Errorf("topic %s is not in the client's view of the cluster yet: %w", topic, kafka.LeaderNotAvailable)
}

// Describe asks a broker about topics, or about all that the user may see if none are named. It returns their ids (KIP-516), and
// the permitted operations (KIP-430). In kafka-go's own view of the cluster, a topic without the right to describe it seems not
// to exist.
func (c *Client) Describe(ctx context.Context, topics []string) ([]kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.IncludeTopicAuthorizedOperations = 10, true // Kafka 2.8
	for _, topic := range topics {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &topic})
	}
	m, err := c.RoundTrip(ctx, &BrokerRequest{Request: req, To: anyBroker, ClientID: c.ClientID})
	if err != nil {
		return nil, err
	}
	return m.(BrokerAnswer).Response.(*kmsg.MetadataResponse).Topics, nil
}

// TopicIDs asks a broker once for the ids of topics. A topic that was deleted and created again has another id. A topic that the
// broker does not know has a zero id. A topic without the right to describe it is left out.
func (c *Client) TopicIDs(ctx context.Context, topics []string) (map[string][16]byte, error) {
	described, err := c.Describe(ctx, topics)
	ids := map[string][16]byte{}
	for _, t := range described {
		if t.ErrorCode == int16(kafka.UnknownTopicOrPartition) || t.TopicID != [16]byte{} {
			ids[*t.Topic] = t.TopicID
		}
	}
	return ids, err
}

// NoTopic reports whether an error says that a topic is unknown.
func NoTopic(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic)
}
