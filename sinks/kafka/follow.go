package kafka

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
)

// followEvery is how often the end of the control topic is asked for.
const followEvery = 100 * time.Millisecond

// follow reads the batches after s.to, as their batch records arrive, until the context ends.
func (s *scan) follow(ctx context.Context) error {
	topic := change.ControlTopic(s.reader.envelope.Prefix)
	seen := map[int]uint64{}
	for slot, batch := range s.to.Batches {
		seen[slot] = batch
	}
	readers := map[int]*consumer.Reader{}
	for {
		ends, err := s.reader.sink.client.Ends(ctx, topic)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if readers[p] == nil {
				readers[p] = s.reader.controlReader(int32(p), s.to.Offsets[topic][p], func(c *change.Control, _ position) error {
					if c.Type != change.ControlBatch || c.Batch <= seen[c.Slot] {
						return nil
					}
					seen[c.Slot] = c.Batch
					return s.batch(ctx, c)
				})
			}
			if err := s.lost(readers[p].ReadTo(ctx, end-1)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// batch visits the selected changes of one batch.
func (s *scan) batch(ctx context.Context, c *change.Control) error {
	for topic, ranges := range c.Ranges {
		if !s.reader.holds(topic, s.Resources) {
			continue
		}
		for p, ends := range ranges {
			if err := s.span(ctx, c, &scanPart{topic: topic, partition: int32(p), first: ends[0], next: ends[1] + 1, deleted: -2}); err != nil {
				return err
			}
		}
	}
	return nil
}

// span visits the batch's own changes in a range of offsets. Other slots' may be among them.
func (s *scan) span(ctx context.Context, c *change.Control, p *scanPart) error {
	slot, epoch, batch := strconv.Itoa(c.Slot), fmt.Sprint(c.Epoch), fmt.Sprint(c.Batch)
	reader := consumer.New(s.reader.sink.client, consumer.Range{Topic: p.topic, Partition: p.partition, First: p.first,
		Committed: true, NoValues: s.NoBodies,
		Wanted: func(f *consumer.Record) bool {
			h := f.Headers
			if h[change.HeaderSlot] != slot || h[change.HeaderEpoch] != epoch || h[change.HeaderBatch] != batch {
				return false
			}
			l := s.logged(p.topic, p.partition, f)
			if l == nil || !s.matches(l) {
				return false
			}
			l.Logged = time.UnixMilli(c.TimeMs)
			return true
		},
		Visit: func(f consumer.Record) error { return s.deliver(ctx, p, &f) },
	})
	err := s.lost(reader.ReadTo(ctx, p.next-1))
	return cmp.Or(err, s.failed)
}
