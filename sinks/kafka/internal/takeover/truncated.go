package takeover

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

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/settings"
)

// inspect compares the data topics with the checkpoint. A topic has lost records if it has another id, ends before the offsets,
// begins after the accounted start, or does not exist. It was deleted, recreated, truncated or emptied.
func (l *Slot) inspect(ctx context.Context, offsets change.Offsets) (*sinks.LostTailError, error) {
	suspects := slices.DeleteFunc(slices.Sorted(maps.Keys(offsets)), func(topic string) bool {
		return topic == l.ControlTopic() || topic == change.DeadLetterTopic(l.Envelope.Prefix)
	})
	r := l.Client.Attempts(fmt.Sprintf("compare the topics %s.* with the checkpoint of slot %d", l.Envelope.Prefix, l.slot))
	defer r.Done()
	for {
		gone, missing, err := l.shorter(ctx, suspects, offsets)
		if err != nil || len(gone) == 0 {
			return nil, err
		}
		tooEarly := l.tooEarly(ctx, missing, r.Since)
		if tooEarly == nil {
			return l.lost(gone), nil
		}
		suspects = slices.Sorted(maps.Keys(gone))
		if err := r.Pause(ctx, tooEarly); err != nil {
			return nil, err
		}
	}
}

// tooEarly returns why topics do not count as lost yet, or nil if they are lost.
func (l *Slot) tooEarly(ctx context.Context, missing []string, since time.Time) error {
	if time.Since(since) < cluster.MissingPatience {
		return errors.New("a topic is missing, or shorter than it was")
	}
	for _, topic := range missing {
		if deleted, err := l.Client.Deleted(ctx, topic, since); err != nil || !deleted {
			return cmp.Or(err, cluster.ErrUnknownYet(topic))
		}
	}
	return nil
}

// Inspect compares the topics with the checkpoint's offsets. It records which topics have lost records before these offsets.
// For the other topics it records the offsets (Expected).
func (l *Slot) Inspect(ctx context.Context, offsets change.Offsets) (err error) {
	l.expected, l.lossy = maps.Clone(offsets), change.Offsets{}
	if l.loss, err = l.inspect(ctx, offsets); l.loss != nil {
		l.lossy.Merge(l.loss.Offsets)
		maps.DeleteFunc(l.expected, func(topic string, _ map[int]int64) bool { return l.loss.Offsets[topic] != nil })
	}
	return err
}

// Expected returns the checkpoint's offset in a partition whose topic has lost nothing, or 0.
func (l *Slot) Expected(topic string, partition int32) int64 {
	return l.expected[topic][int(partition)]
}

// shorter returns the topics that have lost records before the offsets, with the topics' ends. missing are topics that the
// brokers do not know.
func (l *Slot) shorter(
	ctx context.Context, topics []string, offsets change.Offsets,
) (gone map[string]map[int]int64, missing []string, err error) {
	gone = map[string]map[int]int64{}
	ids, err := l.topicIDs(ctx, topics...)
	if err != nil {
		return nil, nil, err
	}
	for _, topic := range topics {
		l.ids.add(topic, ids, offsets[topic][change.TopicID])
		starts, ends, err := l.Client.Bounds(ctx, topic)
		if errors.Is(err, kafka.TopicAuthorizationFailed) {
			l.Config.Logger.Warn("a topic can't be compared with the checkpoint", "topic", topic, "error", err)
			continue // the first write to the topic reports it
		}
		if err != nil {
			return nil, nil, err
		}
		if ends == nil {
			missing = append(missing, topic)
		}
		lost, err := l.lostPartitions(ctx, topic, offsets[topic], ends)
		if err != nil {
			return nil, nil, err
		}
		if l.keeps(topic) {
			l.starts.compare(topic, offsets[topic], starts, lost)
		}
		if len(lost) > 0 { // the loss is recorded with the new id
			lost[change.TopicID] = l.ids.now[topic]
			gone[topic] = lost
		}
	}
	return gone, missing, nil
}

// lostPartitions returns the ends of the partitions that have lost something.
func (l *Slot) lostPartitions(ctx context.Context, topic string, offsets, ends map[int]int64) (map[int]int64, error) {
	lost, other := map[int]int64{}, l.ids.differs(topic, offsets[change.TopicID])
	for p, next := range offsets {
		gone := other || ends[p] < next
		if p < 0 {
			continue
		}
		var err error
		if !gone {
			gone, err = l.hasLost(ctx, topic, p, next)
		}
		switch {
		case err != nil:
			return nil, err
		case gone && !other && ends[p] == next:
			lost[p] = next - 1 // any other offset than the record's
		case gone:
			lost[p] = ends[p]
		}
	}
	return lost, nil
}

// CompareEnds fails if a partition that the slot writes to for the first time is shorter than it was. It then sets the Doubt of
// the partition. Later the broker itself refuses records after lost ones. With transactions CompareEnds does nothing, since a
// transaction can be aborted.
func (l *Slot) CompareEnds(ctx context.Context, active []*producer.Partition) error {
	if l.Config.Delivery == settings.ExactlyOnce {
		return nil
	}
	for _, p := range active {
		if p.Begun() || p.Next == 0 {
			continue
		}
		ends, err := l.Client.Ends(ctx, p.Topic.Name)
		if err != nil {
			return err
		}
		if end := ends[int(p.Index)]; end < p.Next {
			p.Doubt = true
			return fmt.Errorf("%s/%d ends at offset %d, and had records up to %d: the broker has lost them",
				p.Topic.Name, p.Index, end, p.Next-1)
		}
	}
	return nil
}

// CompareLast reads the slot's last record before an open transaction, in the partitions where a broker may have lost it.
func (l *Slot) CompareLast(ctx context.Context, active []*producer.Partition) error {
	for _, p := range active {
		if !p.MustCheck {
			continue
		}
		other, err := l.isOther(ctx, p.Topic.Name, int(p.Index), p.Before-1, written{})
		if err != nil {
			return err
		}
		if other {
			p.Lost, p.Next = true, p.Before
			return fmt.Errorf("%s/%d has another record at offset %d, where the slot's last one was: the broker has lost it",
				p.Topic.Name, p.Index, p.Before-1)
		}
	}
	return nil
}

func (l *Slot) lost(gone map[string]map[int]int64) *sinks.LostTailError {
	var texts []string
	for _, topic := range slices.Sorted(maps.Keys(gone)) {
		texts = append(texts, cmp.Or(l.starts.moved[topic], topic+" was deleted, recreated or truncated"))
	}
	return &sinks.LostTailError{TailRead: true, Offsets: change.Offsets(gone), Reason: strings.Join(texts, ", "),
		Gone: func(s change.StreamID) bool { return gone[change.TopicOf(l.Envelope.Prefix, s)] != nil }}
}
