package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describegroups"
)

// GroupMembers returns the names of a consumer group's members, as Kafka's own tools show them. kafka-go's client would also
// decode their assignments, and fails for some protocols of consumers.
func (c *Client) GroupMembers(ctx context.Context, group string) (members []string, err error) {
	err = c.Try(ctx, "describe consumer group "+group, func(ctx context.Context) error {
		members = nil
		m, err := c.RoundTrip(ctx, &describegroups.Request{Groups: []string{group}})
		if err != nil {
			return err
		}
		for _, g := range m.(*describegroups.Response).Groups {
			if err := CodeError(g.ErrorCode); err != nil && !errors.Is(err, kafka.GroupIdNotFound) {
				return err
			}
			for _, m := range g.Members {
				members = append(members, fmt.Sprintf("%s on %s (%s)", m.ClientID, m.ClientHost, m.MemberID))
			}
		}
		return nil
	})
	return members, err
}

// GroupOffsets returns the committed offsets of a consumer group in all topics.
func (c *Client) GroupOffsets(ctx context.Context, group string) (offsets map[string]map[int]int64, err error) {
	err = c.Try(ctx, "read the offsets of consumer group "+group, func(ctx context.Context) error {
		res, err := c.api.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group})
		if err == nil {
			err = res.Error
		}
		if err != nil {
			return err
		}
		offsets = map[string]map[int]int64{}
		for topic, partitions := range res.Topics {
			offsets[topic] = map[int]int64{}
			for _, p := range partitions {
				if p.Error != nil {
					return fmt.Errorf("%s/%d: %w", topic, p.Partition, p.Error)
				}
				if p.CommittedOffset >= 0 {
					offsets[topic][p.Partition] = p.CommittedOffset
				}
			}
		}
		return nil
	})
	return offsets, err
}

// CommitGroupOffsets commits offsets for a consumer group. The broker refuses them while the group has a member.
func (c *Client) CommitGroupOffsets(ctx context.Context, group string, offsets map[string]map[int]int64) error {
	request := &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{}}
	for topic, partitions := range offsets {
		for p, next := range partitions {
			request.Topics[topic] = append(request.Topics[topic], kafka.OffsetCommit{Partition: p, Offset: next})
		}
	}
	return c.Try(ctx, "commit the offsets of consumer group "+group, func(ctx context.Context) error {
		res, err := c.api.OffsetCommit(ctx, request)
		if err != nil {
			return err
		}
		for topic, partitions := range res.Topics {
			for _, p := range partitions {
				if p.Error != nil {
					return fmt.Errorf("%s/%d: %w", topic, p.Partition, p.Error)
				}
			}
		}
		return nil
	})
}
