package cluster

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
)

// CreateTopics asks the controller to create topics, or only to validate that, with the replication factor of the options.
// Each topic's answer has its own error code.
func (c *Client) CreateTopics(
	ctx context.Context, validateOnly bool, topics ...createtopics.RequestTopic,
) ([]createtopics.ResponseTopic, error) {
	for i := range topics {
		topics[i].ReplicationFactor = int16(c.ReplicationFactor)
	}
	var request protocol.Message = &createtopics.Request{
		ValidateOnly: validateOnly, TimeoutMs: int32(c.RequestTimeout.Milliseconds()), Topics: topics}
	if validateOnly {
		request = validation{request}
	}
	m, err := c.RoundTrip(ctx, request)
	if v, ok := m.(validation); ok {
		m = v.Message
	}
	if err != nil {
		return nil, err
	}
	return m.(*createtopics.Response).Topics, nil
}

// validation hides a request to create topics and its answer from kafka-go, which would wait for the topics even if the request
// only validates. It is split into one part, since kafka-go does not inspect split requests.
type validation struct{ protocol.Message }

func (v validation) Split(protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return []protocol.Message{v.Message}, v, nil
}

func (validation) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	m, err := protocol.Result(results[0])
	return validation{m}, err
}

// TopicConfigs reads settings of topics. It returns the topics without the right to read their settings in unread.
func (c *Client) TopicConfigs(
	ctx context.Context, topics []string, settings ...string,
) (configs map[string]map[string]string, unread []string, err error) {
	request := &kafka.DescribeConfigsRequest{}
	for _, topic := range topics {
		request.Resources = append(request.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: settings})
	}
	res, err := c.api.DescribeConfigs(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	configs = map[string]map[string]string{}
	for _, r := range res.Resources {
		switch {
		case errors.Is(r.Error, kafka.TopicAuthorizationFailed):
			unread = append(unread, r.ResourceName)
			continue
		case r.Error != nil:
			return nil, nil, r.Error
		}
		configs[r.ResourceName] = map[string]string{}
		for _, e := range r.ConfigEntries {
			configs[r.ResourceName][e.ConfigName] = e.ConfigValue
		}
	}
	return configs, unread, nil
}
