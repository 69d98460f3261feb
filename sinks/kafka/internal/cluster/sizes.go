package cluster

import (
	"context"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sizes returns how many bytes the leaders of each topic with a prefix have. It asks once. Without the right to describe the
// cluster the error is kafka.ClusterAuthorizationFailed.
func (c *Client) Sizes(ctx context.Context, prefix string) (map[string]int64, error) {
	topics, err := c.Describe(ctx, nil)
	requests, sizes := map[int32]*kmsg.DescribeLogDirsRequest{}, map[string]int64{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if !strings.HasPrefix(*t.Topic, prefix) || p.Leader == anyBroker {
				continue
			}
			if requests[p.Leader] == nil {
				requests[p.Leader] = kmsg.NewPtrDescribeLogDirsRequest()
				requests[p.Leader].Version = 2 // Kafka 2.6
			}
			requests[p.Leader].Topics = append(requests[p.Leader].Topics,
				kmsg.DescribeLogDirsRequestTopic{Topic: *t.Topic, Partitions: []int32{p.Partition}})
		}
	}
	if err == nil && len(requests) == 0 {
		err = kafka.UnknownTopicOrPartition // or the user may see none
	}
	for broker, req := range requests {
		m, err := c.RoundTrip(ctx, &BrokerRequest{Request: req, To: broker, ClientID: c.ClientID})
		if err != nil {
			return nil, err
		}
		folders := m.(BrokerAnswer).Response.(*kmsg.DescribeLogDirsResponse).Dirs
		if len(folders) == 0 { // this version reports a missing right only by an empty answer
			return nil, kafka.ClusterAuthorizationFailed
		}
		for _, folder := range folders {
			for _, t := range folder.Topics {
				for _, p := range t.Partitions {
					if !p.IsFuture { // not a copy that is on its way to another disk
						sizes[t.Topic] += p.Size
					}
				}
			}
		}
	}
	return sizes, err
}
