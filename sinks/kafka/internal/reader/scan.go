package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// scanAtOnce is how many partitions are read at the same time. Fetching waits for the broker, decoding does not.
const scanAtOnce = 4

// scan answers one query.
type scan struct {
	sinks.Query
	reader *Reader
	key    []byte // plain key of the only object; nil: all objects
	visit  func(*sinks.Logged) error

	mu    sync.Mutex // held during Wanted, visit and Progress
	read  int64
	total int64
}

// run reads the partitions that may have selected changes, up to their ends.
func (s *scan) run(ctx context.Context) error {
	topics, err := s.reader.topics(ctx, s.Resources)
	if err != nil {
		return err
	}
	var parts []logread.Span
	for _, topic := range topics {
		found, err := s.parts(ctx, topic)
		if err != nil {
			return err
		}
		parts = append(parts, found...)
	}
	for _, p := range parts {
		s.total += p.Next - p.First
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(scanAtOnce)
	for _, p := range parts {
		g.Go(func() error { return s.part(ctx, p) })
	}
	return g.Wait()
}

// parts returns the partitions of a topic, and where to begin.
func (s *scan) parts(ctx context.Context, topic string) (parts []logread.Span, err error) {
	starts, ends, err := s.reader.Client.Bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		first := starts[p]
		if s.After != nil {
			after := s.After.Offsets[topic][p]
			if first > after && first > 0 {
				return nil, fmt.Errorf("%s/%d begins at offset %d, and changes after offset %d are asked for: %w",
					topic, p, first, after, sinks.ErrNotRetained)
			}
			first = after
		}
		if first < end {
			parts = append(parts, logread.Span{Topic: topic, Partition: int32(p), First: first, Next: end})
		}
	}
	if s.key == nil || len(parts) < 2 {
		return parts, nil
	}
	possible, err := s.partitionsOf(ctx, len(ends), parts)
	return slices.DeleteFunc(parts, func(p logread.Span) bool { return possible != nil && !possible[int(p.Partition)] }), err
}

// partitionsOf returns the partitions on which the object may be, or nil for any. If partitions were added, keys are spread over
// fewer than exist. The first records of each partition show over how many.
func (s *scan) partitionsOf(ctx context.Context, found int, parts []logread.Span) (map[int]bool, error) {
	count := logread.NewPartitioning(found)
	for _, p := range parts {
		sample := consumer.New(s.reader.Client, consumer.Range{Topic: p.Topic, Partition: p.Partition, First: p.First,
			NoValues: true, Wanted: func(f *consumer.Record) bool {
				if _, key, err := s.reader.Key(f); err == nil && key.Cluster == s.reader.Envelope.Cluster {
					object := change.Change{Namespace: key.Namespace, Name: key.Name}
					count.See(s.reader.Envelope.AppendKey(nil, &object), p.Partition)
				}
				return false
			}})
		if _, err := sample.Fetch(ctx, p.Next-1); err != nil {
			return nil, lost(err)
		}
	}
	return count.PartitionsOf(s.key), nil
}

// part visits the selected changes of a partition.
func (s *scan) part(ctx context.Context, p logread.Span) error {
	reader := s.reader.Log.Changes(ctx, logread.Changes{Span: p, Bodies: s.bodies(),
		Each:     s.count,
		Selected: s.Spans,
		Loose:    s.reader.finished,
		Wanted: func(l *sinks.Logged) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.Selects(l)
		},
		Visit: func(l *sinks.Logged) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.visit(l)
		}})
	return lost(s.readSettled(ctx, reader, p))
}

func (s *scan) bodies() logread.Bodies {
	if s.NoBodies {
		return logread.Nothing
	}
	return logread.All
}

// readSettled reads a partition to its end. The transactions of the cut's batches have ended, but a broker writes their markers
// to one partition after another. So it continues until it has read the markers of this partition.
func (s *scan) readSettled(ctx context.Context, reader *consumer.Reader, p logread.Span) error {
	err := reader.ReadTo(ctx, p.Next-1)
	for began := time.Now(); err == nil && reader.Open(); {
		if time.Since(began) > markerPatience {
			return fmt.Errorf("%s/%d has no end of a transaction of which the control topic has it", p.Topic, p.Partition)
		}
		var ends map[int]int64
		if err = wait.For(ctx, cluster.SettleEvery); err == nil {
			ends, err = s.reader.Client.Ends(ctx, p.Topic)
		}
		if err == nil {
			err = reader.ReadTo(ctx, ends[int(p.Partition)]-1)
		}
	}
	return err
}

// markerPatience is how long a broker may take to write a transaction's marker to all partitions.
const markerPatience = time.Minute

// progressRecords is how many records are read between two reports of progress.
const progressRecords = 1000

func (s *scan) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read++; s.Progress != nil && s.read%progressRecords == 0 {
		s.Progress(s.read, max(s.read, s.total))
	}
}

// lost adds to an error that records were removed during the read.
func lost(err error) error {
	if errors.Is(err, consumer.ErrGone) {
		return fmt.Errorf("%w: %w", sinks.ErrNotRetained, err)
	}
	return err
}
