package kafka

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
)

// inspect compares the data topics with the offsets of the checkpoint. A topic that ends before them, or does not exist, was
// deleted, recreated or truncated: its records are lost. (A topic that was recreated and has grown beyond the offsets can't be
// distinguished from the old one.)
func (l *slotLog) inspect(ctx context.Context, offsets change.Offsets) (*sinks.LostTailError, error) {
	suspects := slices.DeleteFunc(slices.Sorted(maps.Keys(offsets)), func(topic string) bool {
		return topic == l.control.Topic.Name || topic == change.DeadLetterTopic(l.envelope.Prefix)
	})
	r := l.sink.client.Attempts("compare the topics with the checkpoint of " + l.producer.TransactionalID)
	defer r.Done()
	for {
		gone, missing, err := l.shorter(ctx, suspects, offsets)
		if err != nil || len(gone) == 0 {
			return nil, err
		}
		tooEarly := l.sink.tooEarly(ctx, missing, r.Since)
		if tooEarly == nil {
			return l.lost(gone), nil
		}
		suspects = slices.Sorted(maps.Keys(gone))
		if err := r.Pause(ctx, tooEarly); err != nil {
			return nil, err
		}
	}
}

// tooEarly returns why topics can't be taken for lost yet; nil: they are lost.
func (s *Sink) tooEarly(ctx context.Context, missing []string, since time.Time) error {
	if time.Since(since) < cluster.MissingPatience {
		return errors.New("a topic is missing, or shorter than it was")
	}
	for _, topic := range missing {
		if deleted, err := s.client.Deleted(ctx, topic, since); err != nil || !deleted {
			return cmp.Or(err, cluster.ErrUnknownYet(topic))
		}
	}
	return nil
}

// shorter returns the topics that end before the offsets, with their ends; missing are those that the brokers do not know.
func (l *slotLog) shorter(
	ctx context.Context, topics []string, offsets change.Offsets,
) (gone map[string]map[int]int64, missing []string, err error) {
	gone = map[string]map[int]int64{}
	for _, topic := range topics {
		ends, err := l.sink.client.Ends(ctx, topic)
		if errors.Is(err, kafka.TopicAuthorizationFailed) {
			l.sink.cfg.Logger.Warn("a topic can't be compared with the checkpoint", "topic", topic, "error", err)
			continue // its streams are refused when they have something to write
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
		Reason: "deleted, recreated or truncated: " + strings.Join(slices.Sorted(maps.Keys(gone)), ", ")}
}
