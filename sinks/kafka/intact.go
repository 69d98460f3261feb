package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"kubecdc/change"
	"kubecdc/sinks"
)

// inspect compares the data topics with the offsets of the checkpoint. A topic that ends before them, or is not there,
// was deleted, made anew or truncated: what it held is lost. (One that was made anew and has grown beyond them can't be
// told from the old one.)
func (l *slotLog) inspect(ctx context.Context, offsets change.Offsets) (*sinks.LostTailError, error) {
	suspects := slices.DeleteFunc(slices.Sorted(maps.Keys(offsets)), func(topic string) bool {
		return topic == l.control.topic.name || topic == change.DeadLetterTopic(l.envelope.Prefix)
	})
	r := l.sink.client.retrier("find what " + l.producer.txnID + " has written")
	defer r.done()
	for {
		gone, missing, err := l.shorter(ctx, suspects, offsets)
		if err != nil || len(gone) == 0 {
			return nil, err
		}
		doubt := l.sink.client.doubt(ctx, missing, r.since)
		if doubt == nil {
			return l.lost(gone), nil
		}
		suspects = slices.Sorted(maps.Keys(gone))
		if err := r.pause(ctx, doubt); err != nil {
			return nil, err
		}
	}
}

// doubt says why it is too early to take topics for lost.
func (c *client) doubt(ctx context.Context, missing []string, since time.Time) error {
	if time.Since(since) < gonePatience {
		return errors.New("a topic is missing, or shorter than it was")
	}
	for _, topic := range missing {
		if deleted, err := c.deleted(ctx, topic, since); err != nil || !deleted {
			return cmp.Or(err, notSeen(topic))
		}
	}
	return nil
}

// shorter gives the topics that end before the offsets, and where they end; missing are those of them that the brokers
// asked do not know.
func (l *slotLog) shorter(ctx context.Context, topics []string, offsets change.Offsets) (gone map[string]map[int]int64, missing []string, err error) {
	gone = map[string]map[int]int64{}
	for _, topic := range topics {
		ends, err := l.sink.client.ends(ctx, topic)
		if errors.Is(err, kafka.TopicAuthorizationFailed) {
			l.sink.cfg.Logger.Warn("a topic can't be compared with the checkpoint", "topic", topic, "error", err)
			continue // its streams wait as soon as they have something to write
		}
		if err != nil {
			return nil, nil, err
		}
		if ends == nil {
			missing = append(missing, topic)
		}
		for p, next := range offsets[topic] {
			if ends[p] >= next {
				continue
			}
			if gone[topic] == nil {
				gone[topic] = map[int]int64{}
			}
			gone[topic][p] = ends[p]
		}
	}
	return gone, missing, nil
}

func (l *slotLog) lost(gone map[string]map[int]int64) *sinks.LostTailError {
	return &sinks.LostTailError{TailRead: true, Offsets: change.Offsets(gone),
		Gone:   func(r change.Resource) bool { return gone[change.Topic(l.envelope.Prefix, r)] != nil },
		Reason: "deleted, made anew or truncated: " + strings.Join(slices.Sorted(maps.Keys(gone)), ", ")}
}

// ends gives the end of every partition of a topic; nothing where there is no such topic.
func (c *client) ends(ctx context.Context, topic string) (ends map[int]int64, err error) {
	err = c.try(ctx, "find the end of "+topic, func(ctx context.Context) error {
		ends, err = c.askOffsets(ctx, topic, latest)
		if noTopic(err) {
			ends, err = nil, nil
		}
		return err
	})
	return ends, err
}

// starts gives the first offset that each partition of a topic still has.
func (c *client) starts(ctx context.Context, topic string) (starts map[int]int64, err error) {
	err = c.try(ctx, "find the start of "+topic, func(ctx context.Context) error {
		starts, err = c.askOffsets(ctx, topic, earliest)
		return err
	})
	return starts, err
}

// What can be asked for instead of a time (ListOffsets).
const latest, earliest = -1, -2

func (c *client) askOffsets(ctx context.Context, topic string, at int64) (map[int]int64, error) {
	leaders, err := c.leaders(ctx, topic)
	if err != nil || len(leaders) == 0 {
		return nil, err
	}
	partitions := make([]listoffsets.RequestPartition, len(leaders))
	for p := range leaders {
		partitions[p] = listoffsets.RequestPartition{Partition: int32(p), CurrentLeaderEpoch: -1, Timestamp: at}
	}
	m, err := c.roundTrip(ctx, &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{Topic: topic, Partitions: partitions}}})
	if err != nil {
		return nil, err
	}
	offsets := map[int]int64{}
	for _, t := range m.(*listoffsets.Response).Topics {
		for _, p := range t.Partitions {
			if err := codeError(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			offsets[int(p.Partition)] = p.Offset
		}
	}
	return offsets, nil
}
