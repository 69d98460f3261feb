package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"kubecdc/sinks/kafka/internal/cluster"
)

// The answer to a fetch is held in memory as it was sent, and unpacked record by record. A record batch above the size comes
// alone.
const (
	firstFetch = 128 << 10
	maxFetch   = 1 << 20
)

// Readable returns an error if the user may not read a topic. It fetches from an offset that no log has, so that nothing is sent.
// A broker checks the right first, so an answer that it does not lead the partition is enough. The leader of a new topic gives
// that answer for a moment.
func Readable(ctx context.Context, c *cluster.Client, topic string) error {
	return c.Try(ctx, "read topic "+topic, func(ctx context.Context) error {
		_, err := fetchFrom(ctx, c, topic, 0, math.MaxInt64, 1)
		if errors.Is(err, kafka.OffsetOutOfRange) || errors.Is(err, kafka.NotLeaderForPartition) {
			return nil
		}
		return err
	})
}

func (s *Reader) fetchOnce(ctx context.Context) error {
	a, err := fetchFrom(ctx, s.client, s.Topic, s.Partition, s.next, s.fetchSize)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		s.err = fmt.Errorf("offset %d: %w", s.next, ErrGone)
		return nil
	}
	if err != nil {
		return err
	}
	defer a.records.Release()
	s.err = s.readAnswer(a)
	s.fetchSize = min(s.fetchSize*2, s.MaxBytes)
	if s.err == nil && s.empty {
		return s.judgeEmpty(ctx, a.highWatermark)
	}
	return nil
}

// judgeEmpty decides about an empty answer before the last offset. If the leader accepts a fetch after the last offset, it has
// records that wait for absent replicas. Then the fetch is retried while the replicas are absent. Otherwise the records are lost.
func (s *Reader) judgeEmpty(ctx context.Context, highWatermark int64) error {
	_, err := fetchFrom(ctx, s.client, s.Topic, s.Partition, s.last+1, s.fetchSize)
	switch {
	case errors.Is(err, kafka.OffsetOutOfRange):
		s.err = fmt.Errorf("the log ends at offset %d: %w", highWatermark, ErrGone)
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("offset %d is not replicated yet: %w", s.next, kafka.OffsetNotAvailable)
}

func fetchFrom(
	ctx context.Context, c *cluster.Client, topic string, partition int32, offset int64, size int32,
) (*answer, error) {
	m, err := c.RoundTrip(ctx, &exchange{clientID: c.ClientID, Request: fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32((500 * time.Millisecond).Milliseconds()), MinBytes: 1, MaxBytes: size,
		SessionID: 0, SessionEpoch: -1, // no fetch session (KIP-227)
		Topics: []fetch.RequestTopic{{Topic: topic, Partitions: []fetch.RequestPartition{{
			Partition: partition, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: size,
		}}}},
	}})
	if err != nil {
		return nil, err
	}
	a := m.(*answer)
	if err := cluster.CodeError(a.code); err != nil {
		a.records.Release()
		return nil, err
	}
	if a.records == nil && a.throttled > 0 {
		return nil, fmt.Errorf("%s/%d: no record is sent before a quota allows it: %w", topic, partition,
			kafka.ThrottlingQuotaExceeded)
	}
	if a.records == nil {
		return nil, fmt.Errorf("the broker does not answer for %s/%d", topic, partition)
	}
	return a, nil
}
