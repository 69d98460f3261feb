package cluster

import (
	"context"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicIDs asks a broker once for the ids of topics (KIP-516): a topic that was deleted and made again has another. A topic
// that the broker does not know has a zero one. One that may not be described has none, nor has any where brokers know no ids
// (before 2.8).
func (c *Client) TopicIDs(ctx context.Context, topics []string) (map[string][16]byte, error) {
	m, err := c.RoundTrip(ctx, &topicIDsRequest{clientID: c.ClientID, topics: topics})
	if err != nil {
		return nil, err
	}
	return m.(topicIDs), nil
}

// topicIDsRequest is a Metadata request of a version that kafka-go lacks.
type topicIDsRequest struct {
	clientID string
	topics   []string
}

type topicIDs map[string][16]byte

func (*topicIDsRequest) ApiKey() protocol.ApiKey { return protocol.Metadata }
func (topicIDs) ApiKey() protocol.ApiKey         { return protocol.Metadata }

// Required says that kafka-go leaves the exchange to the request.
func (*topicIDsRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// The versions of Metadata that have ids, in the form that kmsg writes.
const firstWithIDs, lastWithIDs = 10, 12

// RawExchange asks for the broker's versions first.
func (r *topicIDsRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	m, err := protocol.RoundTrip(rw, 0, 0, r.clientID, &apiversions.Request{})
	if err != nil {
		return nil, err
	}
	version := int16(0)
	for _, k := range m.(*apiversions.Response).ApiKeys {
		if k.ApiKey == int16(protocol.Metadata) {
			version = min(k.MaxVersion, lastWithIDs)
		}
	}
	if version < firstWithIDs {
		return topicIDs{}, nil
	}
	return r.ask(rw, version)
}

func (r *topicIDsRequest) ask(rw io.ReadWriter, version int16) (protocol.Message, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Version = version
	for _, topic := range r.topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		request.Topics = append(request.Topics, t)
	}
	answer, err := exchange(rw, r.clientID, request)
	if err != nil {
		return nil, err
	}
	ids := topicIDs{}
	for _, t := range answer.(*kmsg.MetadataResponse).Topics {
		switch {
		case t.Topic == nil:
		case t.ErrorCode == int16(kafka.UnknownTopicOrPartition):
			ids[*t.Topic] = [16]byte{}
		case t.TopicID != [16]byte{}:
			ids[*t.Topic] = t.TopicID
		}
	}
	return ids, nil
}
