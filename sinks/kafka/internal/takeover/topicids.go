package takeover

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/logread"
)

// topicIDs are the ids of the topics that a log relies on, as change.TopicID returns them. A topic that was deleted and created
// again has another id, whatever its offsets are.
type topicIDs struct {
	now    map[string]int64 // 0: the topic does not exist
	stored map[string]bool  // ids that the checkpoint has
	asked  time.Time
}

// idsEvery is how often the ids are compared while the log is written.
const idsEvery = 10 * time.Second

// fingerprint returns an id in 53 bits, which every JSON parser preserves, as a negative number.
func fingerprint(id [16]byte) int64 {
	if id == [16]byte{} {
		return 0
	}
	return -int64(binary.BigEndian.Uint64(id[:8])>>11 | 1)
}

// topicIDs returns the present ids of topics, as far as they are known.
func (l *Slot) topicIDs(ctx context.Context, topics ...string) (ids map[string]int64, err error) {
	if len(topics) == 0 {
		return nil, nil
	}
	return ids, l.Client.Try(ctx, "ask for the ids of the topics", func(ctx context.Context) error {
		ids, err = l.askIDs(ctx, topics)
		return err
	})
}

func (l *Slot) askIDs(ctx context.Context, topics []string) (map[string]int64, error) {
	all, err := l.Client.TopicIDs(ctx, topics)
	ids := map[string]int64{}
	for topic, id := range all {
		ids[topic] = fingerprint(id)
	}
	return ids, err
}

// errMadeAgain ends the session. The next one finds out what is lost.
var errMadeAgain = errors.New("the topic was deleted and made again")

// CompareIDs requests the ids again from time to time. A topic that does not exist any more also ends the session, unless it had
// snapshots on demand, which are deleted after they were read.
func (l *Slot) CompareIDs(ctx context.Context) error {
	if time.Since(l.ids.asked) < idsEvery {
		return nil
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(l.ids.now)), func(topic string) bool {
		return l.ids.now[topic] == 0 || change.IsSnapshotTopic(l.Envelope.Prefix, topic)
	})
	if len(known) == 0 {
		return nil
	}
	err := l.Client.Try(ctx, "compare the ids of the topics", func(ctx context.Context) error {
		ids, err := l.askIDs(ctx, known)
		for topic, id := range ids {
			switch {
			case id == 0:
				err = fmt.Errorf("%s: %w", topic, kafka.UnknownTopicOrPartition)
			case id != l.ids.now[topic]:
				return cluster.Final(fmt.Errorf("%s: %w", topic, errMadeAgain))
			}
		}
		return err
	})
	l.ids.asked = time.Now()
	return err
}

// LearnID records the id of a topic before it is first written to.
func (l *Slot) LearnID(ctx context.Context, topic string) error {
	if l.ids.now[topic] != 0 {
		return nil
	}
	ids, err := l.topicIDs(ctx, topic)
	l.ids.add(topic, ids, 0)
	return err
}

// add adds the id that a topic has now, if it is known, and the one in the checkpoint.
func (t *topicIDs) add(topic string, now map[string]int64, stored int64) {
	if id, known := now[topic]; known {
		t.now[topic], t.stored[topic] = id, stored != 0
	}
}

// differs reports whether a topic is not the one in the checkpoint.
func (t *topicIDs) differs(topic string, stored int64) bool {
	id := t.now[topic]
	return id != 0 && stored != 0 && id != stored
}

// TellIDs adds to a batch's offsets the ids that the checkpoint does not have yet, and the starts in the batch record.
func (l *Slot) TellIDs(offsets change.Offsets) {
	for topic, id := range l.ids.now {
		if id != 0 && !l.ids.stored[topic] {
			l.ids.stored[topic] = true
			offsets.Merge(change.Offsets{topic: {change.TopicID: id}})
		}
	}
	offsets.Merge(logread.StartsAsOffsets(l.starts.unrecorded))
	clear(l.starts.unrecorded)
}
