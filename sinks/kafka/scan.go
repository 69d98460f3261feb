package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
)

// scanAtOnce is how many partitions are read at the same time: a fetch waits for the broker, decoding does not.
const scanAtOnce = 4

// scan answers one query.
type scan struct {
	sinks.Query
	reader *Reader
	to     *sinks.Cut
	key    []byte // the plain one of the only object; nil: all
	visit  func(*sinks.Logged) error

	mu      sync.Mutex // held while Wanted, visit or Progress is called
	streams map[change.StreamID]*change.Stream
	read    int64
	of      int64
	failed  error // of a record that may be the cluster's
}

// scanPart is a partition with the offsets to read: from first up to next.
type scanPart struct {
	topic       string
	partition   int32
	first, next int64
	deleted     int64 // the offset of the last delete
}

// run reads the partitions that may have selected changes, up to their ends.
func (s *scan) run(ctx context.Context) error {
	s.streams = map[change.StreamID]*change.Stream{}
	topics, err := s.reader.topics(ctx, s.Resources)
	if err != nil {
		return err
	}
	var parts []*scanPart
	for _, topic := range topics {
		found, err := s.parts(ctx, topic)
		if err != nil {
			return err
		}
		parts = append(parts, found...)
	}
	for _, p := range parts {
		s.of += p.next - p.first
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(scanAtOnce)
	for _, p := range parts {
		g.Go(func() error { return s.part(ctx, p) })
	}
	err = g.Wait() // only then is failed complete
	return cmp.Or(err, s.failed)
}

// parts finds the partitions of a topic, and where to begin.
func (s *scan) parts(ctx context.Context, topic string) (parts []*scanPart, err error) {
	starts, ends, err := s.reader.sink.client.Bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		first := starts[p]
		if s.After != nil {
			after := s.After.Offsets[topic][p]
			if first > after && first > 0 {
				return nil, fmt.Errorf("%s/%d begins at offset %d, and changes after offset %d are asked for: %w",
					topic, p, first, after, sinks.ErrNotKept)
			}
			first = after
		}
		if first < end {
			parts = append(parts, &scanPart{topic: topic, partition: int32(p), first: first, next: end, deleted: -2})
		}
	}
	if s.key == nil || len(parts) < 2 {
		return parts, nil
	}
	possible, err := s.partitionsOf(ctx, len(ends), parts)
	return slices.DeleteFunc(parts, func(p *scanPart) bool { return possible != nil && !possible[int(p.partition)] }), err
}

// partitionsOf returns on which partitions the object may be; nil: on any. If partitions were added, keys are spread over fewer
// than there are: over how many is found out from the first records of each partition.
func (s *scan) partitionsOf(ctx context.Context, found int, parts []*scanPart) (map[int]bool, error) {
	count := newPartitioning(found)
	for _, p := range parts {
		sample := consumer.New(s.reader.sink.client, consumer.Range{Topic: p.topic, Partition: p.partition, First: p.first,
			NoValues: true, Wanted: func(f *consumer.Record) bool {
				count.see(s.reader.sink.encodings, f, p.partition)
				return false
			}})
		if _, err := sample.Fetch(ctx, p.next-1); err != nil {
			return nil, s.lost(err)
		}
	}
	if len(count.possible) == 0 {
		return nil, nil // another partitioner was used
	}
	at := map[int]bool{}
	for _, n := range count.possible {
		at[producer.PartitionOf(s.key, n)] = true
	}
	return at, nil
}

// part visits the selected changes of a partition.
func (s *scan) part(ctx context.Context, p *scanPart) error {
	reader := consumer.New(s.reader.sink.client, consumer.Range{Topic: p.topic, Partition: p.partition, First: p.first,
		NoValues: s.NoBodies,
		Wanted: func(f *consumer.Record) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.count()
			l := s.logged(p.topic, p.partition, f)
			return l != nil && s.to.Has(l) && (s.After == nil || !s.After.Has(l)) && s.matches(l)
		},
		Visit: func(f consumer.Record) error {
			if !f.Transactional {
				if finished, err := s.reader.finished(ctx, f.Data.(*sinks.Logged)); err != nil || !finished {
					return err
				}
			}
			return s.deliver(ctx, p, &f)
		}})
	return s.lost(s.readSettled(ctx, reader, p))
}

// readSettled reads a partition to its end. The transactions of the cut's batches have ended, but a broker writes their markers to
// one partition after another: it reads on until those of this one are there.
func (s *scan) readSettled(ctx context.Context, reader *consumer.Reader, p *scanPart) error {
	err := reader.ReadTo(ctx, p.next-1)
	for began := time.Now(); err == nil && reader.Open(); {
		if time.Since(began) > markerPatience {
			return fmt.Errorf("%s/%d has no end of a transaction of which the control topic has it", p.topic, p.partition)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		var ends map[int]int64
		if ends, err = s.reader.sink.client.Ends(ctx, p.topic); err == nil {
			err = reader.ReadTo(ctx, ends[int(p.partition)]-1)
		}
	}
	return err
}

// markerPatience is how long a broker may take to write the marker of a transaction to all partitions.
const markerPatience = time.Minute

// deliver visits a change, but not the tombstone that repeats the delete before it.
func (s *scan) deliver(ctx context.Context, p *scanPart, f *consumer.Record) error {
	l := f.Data.(*sinks.Logged)
	if f.Value == nil && l.Offset == p.deleted+1 {
		return nil
	}
	if l.Op == change.Delete && f.Value != nil {
		p.deleted = l.Offset
	}
	if err := s.fill(ctx, l, f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visit(l)
}

func (s *scan) stream(id change.StreamID) *change.Stream {
	if s.streams[id] == nil {
		s.streams[id] = change.ParseStream(id)
	}
	return s.streams[id]
}

// progressRecords is after how many records the progress is reported.
const progressRecords = 1000

func (s *scan) count() {
	if s.read++; s.Progress != nil && s.read%progressRecords == 0 {
		s.Progress(s.read, max(s.read, s.of))
	}
}

// lost says that records were removed while they were read.
func (s *scan) lost(err error) error {
	if errors.Is(err, consumer.ErrGone) {
		return fmt.Errorf("%w: %w", sinks.ErrNotKept, err)
	}
	return err
}
