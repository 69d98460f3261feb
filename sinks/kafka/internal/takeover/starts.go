package takeover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
)

// starts are where the partitions of data topics begin. Compaction does not move a start. Somebody who removes records does, and
// so does a retention by time or size. A start is accounted for once a batch record has it, since gap records then say what was
// removed.
type starts struct {
	seen       map[string]map[int]int64 // by this owner: topic → partition → start
	unrecorded map[string]map[int]int64 // for the next batch record
	moved      map[string]string        // topic → its loss
}

// add adds the starts of a topic. If they are not all 0, they go into the next batch record, even if an earlier one has them,
// since that will expire.
func (s *starts) add(topic string, starts map[int]int64) {
	s.seen[topic] = starts
	for _, start := range starts {
		if start > 0 {
			s.unrecorded[topic] = starts
			return
		}
	}
}

// compare adds to lost the partitions that have lost records before their starts, with the starts. known are the checkpoint's
// offsets in the topic, of each partition that the slot has written to.
func (s *starts) compare(topic string, known map[int]int64, starts, lost map[int]int64) {
	s.add(topic, starts)
	partitions := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(p int) bool { return p < 0 })
	for _, p := range partitions {
		start, was := starts[p], known[change.StartOf(p)]
		if start <= was {
			continue
		}
		s.moved[topic] = fmt.Sprintf("records were removed from %s: partition %d begins at offset %d, and began at %d", topic, p,
			start, was)
		if _, isLost := lost[p]; !isLost {
			lost[p] = known[p]
		}
	}
	for _, p := range partitions {
		if start := starts[p]; len(lost) > 0 && start != known[change.StartOf(p)] {
			lost[change.StartOf(p)] = start
		}
	}
}

// keeps reports whether records of a topic remain unless somebody removes them.
func (l *Slot) keeps(topic string) bool {
	return l.IsData(topic) && !change.IsSnapshotTopic(l.Envelope.Prefix, topic)
}

// LearnStarts records where a topic begins before it is first written to.
func (l *Slot) LearnStarts(ctx context.Context, topic string) error {
	if l.starts.seen[topic] != nil || !l.keeps(topic) {
		return nil
	}
	starts, _, err := l.Client.Bounds(ctx, topic)
	if err == nil {
		l.starts.add(topic, starts)
	}
	return err
}

// Starts returns the starts for the next batch record.
func (l *Slot) Starts() map[string]map[int]int64 { return l.starts.unrecorded }

// errRemoved ends the session. The next one records the loss.
var errRemoved = fmt.Errorf("records were removed before that: %w", sinks.ErrInvalidWriter)

// CompareStarts ends the session if a topic whose stream was proved has lost records at its beginning.
func (l *Slot) CompareStarts(ctx context.Context, b *change.Batch) error {
	for i := range b.Controls {
		topic := change.TopicOf(l.Envelope.Prefix, b.Controls[i].Stream)
		seen := l.starts.seen[topic]
		if b.Controls[i].Type != change.ControlProof || seen == nil {
			continue
		}
		starts, _, err := l.Client.Bounds(ctx, topic)
		if errors.Is(err, kafka.TopicAuthorizationFailed) {
			continue // the first write to the topic reports it
		}
		if err != nil {
			return err
		}
		for p, start := range starts {
			if start > seen[p] {
				return cluster.Final(fmt.Errorf("%s/%d begins at offset %d, and began at %d: %w", topic, p, start, seen[p],
					errRemoved))
			}
		}
		l.starts.add(topic, starts)
	}
	return nil
}
