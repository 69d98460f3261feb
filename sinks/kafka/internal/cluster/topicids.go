package cluster

import (
	"context"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// withIDs is the first version of Metadata that has topics' ids, and every supported broker knows it.
const withIDs = 10

// TopicIDs asks a broker once for the ids of topics (KIP-516): a topic that was deleted and made again has another. A topic
// that the broker does not know has a zero one. One that may not be described has none.
func (c *Client) TopicIDs(ctx context.Context, topics []string) (map[string][16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = withIDs
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
	}
	m, err := c.RoundTrip(ctx, &BrokerRequest{Request: req, To: AnyBroker, ClientID: c.ClientID})
	if err != nil {
		return nil, err
	}
	ids := map[string][16]byte{}
	for _, t := range m.(BrokerAnswer).Response.(*kmsg.MetadataResponse).Topics {
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
