package cluster

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// What ListOffsets takes in place of a time.
const (
	Latest   = -1
	Earliest = -2
)

// Ends gives the end offset of every partition of a topic; nothing where there is no such topic.
func (c *Client) Ends(ctx context.Context, topic string) (ends map[int]int64, err error) {
	err = c.Try(ctx, "find the end of "+topic, func(ctx context.Context) error {
		ends, err = c.Offsets(ctx, topic, Latest)
		if NoTopic(err) {
			ends, err = nil, nil
		}
		return err
	})
	return ends, err
}

// Starts gives the log start offset of every partition of a topic: the first that is still there.
func (c *Client) Starts(ctx context.Context, topic string) (starts map[int]int64, err error) {
	err = c.Try(ctx, "find the start of "+topic, func(ctx context.Context) error {
		starts, err = c.Offsets(ctx, topic, Earliest)
		return err
	})
	return starts, err
}

// Offsets asks once for an offset of every partition of a topic.
func (c *Client) Offsets(ctx context.Context, topic string, at int64) (map[int]int64, error) {
	leaders, err := c.Leaders(ctx, topic)
	if err != nil || len(leaders) == 0 {
		return nil, err
	}
	partitions := make([]listoffsets.RequestPartition, len(leaders))
	for p := range leaders {
		partitions[p] = listoffsets.RequestPartition{Partition: int32(p), CurrentLeaderEpoch: -1, Timestamp: at}
	}
	m, err := c.RoundTrip(ctx, &listoffsets.Request{ReplicaID: -1,
		Topics: []listoffsets.RequestTopic{{Topic: topic, Partitions: partitions}}})
	if err != nil {
		return nil, err
	}
	offsets := map[int]int64{}
	for _, t := range m.(*listoffsets.Response).Topics {
		for _, p := range t.Partitions {
			if err := CodeError(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			offsets[int(p.Partition)] = p.Offset
		}
	}
	return offsets, nil
}
