package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"kubecdc/internal/wait"
)

// These replace a time in ListOffsets.
const (
	Latest   = -1
	Earliest = -2
)

// Ends returns the end offset of every partition of a topic, or nil if the topic does not exist.
func (c *Client) Ends(ctx context.Context, topic string) (map[int]int64, error) {
	return c.existing(ctx, "find the end of "+topic, topic, Latest, 0)
}

func (c *Client) existing(ctx context.Context, op, topic string, timestamp int64, isolation int8) (offsets map[int]int64,
	err error) {
	err = c.Try(ctx, op, func(ctx context.Context) error {
		if offsets, err = c.offsets(ctx, topic, timestamp, isolation); NoTopic(err) {
			offsets, err = nil, nil
		}
		return err
	})
	return offsets, err
}

// Starts returns the log start offset of every partition of a topic: the first offset that still exists.
func (c *Client) Starts(ctx context.Context, topic string) (starts map[int]int64, err error) {
	err = c.Try(ctx, "find the start of "+topic, func(ctx context.Context) error {
		starts, err = c.Offsets(ctx, topic, Earliest)
		return err
	})
	return starts, err
}

// Bounds returns Starts and Ends, or nil if the topic does not exist.
func (c *Client) Bounds(ctx context.Context, topic string) (starts, ends map[int]int64, err error) {
	if ends, err = c.Ends(ctx, topic); err != nil || len(ends) == 0 {
		return nil, nil, err
	}
	if starts, err = c.Starts(ctx, topic); NoTopic(err) { // it has just been deleted
		return nil, nil, nil
	}
	return starts, ends, err
}

// StableEnds returns the last stable offset of every partition of a topic, before which all transactions have ended (KIP-98). It
// returns nil if the topic does not exist.
func (c *Client) StableEnds(ctx context.Context, topic string) (map[int]int64, error) {
	return c.existing(ctx, "find the stable end of "+topic, topic, Latest, readCommitted)
}

// SettleEvery is the pause between two checks whether transactions have ended.
const SettleEvery = 5 * time.Millisecond

// settlePatience is longer than a broker takes to end a transaction whose end it has acknowledged.
const settlePatience = 10 * time.Second

// SettledEnds returns the ends and the stable ends of a topic, once it has the markers of the transactions that had ended before
// the call. A broker answers first, and then writes a marker into one partition after another. A transaction that remains open
// was not ended by its writer.
func (c *Client) SettledEnds(ctx context.Context, topic string) (ends, stable map[int]int64, err error) {
	ends, err = c.Ends(ctx, topic)
	for began := time.Now(); err == nil && len(ends) > 0; {
		if stable, err = c.StableEnds(ctx, topic); err != nil {
			break
		}
		open := false
		for p, end := range ends {
			open = open || stable[p] < end
		}
		if !open || time.Since(began) > settlePatience {
			for p, end := range stable {
				ends[p] = max(ends[p], end) // including the markers
			}
			return ends, stable, nil
		}
		err = wait.For(ctx, SettleEvery)
	}
	return ends, stable, err
}

// Since returns, for every partition of a topic, the offset of the first record with a time or later, or -1 if there is none. It
// returns nil if the topic does not exist.
func (c *Client) Since(ctx context.Context, topic string, t time.Time) (map[int]int64, error) {
	return c.existing(ctx, "find the records since "+t.Format(time.RFC3339)+" in "+topic, topic, t.UnixMilli(), 0)
}

// Offsets asks once for an offset of every partition of a topic.
func (c *Client) Offsets(ctx context.Context, topic string, timestamp int64) (map[int]int64, error) {
	return c.offsets(ctx, topic, timestamp, 0)
}

const readCommitted = 1

func (c *Client) offsets(ctx context.Context, topic string, timestamp int64, isolation int8) (map[int]int64, error) {
	leaders, err := c.Leaders(ctx, topic)
	if err != nil || len(leaders) == 0 {
		return nil, err
	}
	partitions := make([]listoffsets.RequestPartition, len(leaders))
	for p := range leaders {
		partitions[p] = listoffsets.RequestPartition{Partition: int32(p), CurrentLeaderEpoch: -1, Timestamp: timestamp}
	}
	m, err := c.RoundTrip(ctx, &listoffsets.Request{ReplicaID: -1, IsolationLevel: isolation,
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
