package reader

import (
	"context"
	"maps"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// followEvery is how often the end of the control topic is requested.
const followEvery = 100 * time.Millisecond

// follow reads the batches after s.To, as their batch records arrive, until the context ends.
func (s *scan) follow(ctx context.Context) error {
	topic := s.reader.ControlTopic()
	seen := maps.Clone(s.To.Batches)
	see := func(c logread.Control) error {
		if c.Type != change.ControlBatch || c.Batch <= seen[c.Slot] {
			return nil
		}
		seen[c.Slot] = c.Batch
		return s.batch(ctx, c)
	}
	readers := map[int]*consumer.Reader{}
	for {
		ends, err := s.reader.Client.Ends(ctx, topic)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if readers[p] == nil {
				readers[p] = s.reader.controlReader(p, s.To.Offsets[topic][p], see)
			}
			if err := lost(readers[p].ReadTo(ctx, end-1)); err != nil {
				return err
			}
		}
		if err := wait.For(ctx, followEvery); err != nil {
			return err
		}
	}
}

// batch visits the selected changes of one batch.
func (s *scan) batch(ctx context.Context, c logread.Control) error {
	in := func(topic string) (bool, error) { return s.reader.holds(topic, s.Resources), nil }
	return s.reader.Batches(ctx, []logread.Control{c}, in, logread.Changes{Bodies: s.bodies(), Wanted: s.Selects},
		func(_ int, l *sinks.Logged) error {
			l.Logged = time.UnixMilli(c.TimeMs)
			return s.visit(l)
		})
}
