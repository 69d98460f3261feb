package takeover

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// fold reads one partition after another. An object's records are all in one partition, in order, so the last one has its state.
func (f *stateFold) fold(
	ctx context.Context, visit func(*change.Change) error, progress func(sinks.Progress),
) (sinks.Progress, error) {
	for _, p := range f.parts {
		if err := f.part(ctx, p, visit, progress); err != nil {
			return f.folded, err
		}
	}
	return f.folded, f.pin(ctx)
}

func (f *stateFold) part(
	ctx context.Context, p logread.Span, visit func(*change.Change) error, progress func(sinks.Progress),
) error {
	before, bodies := f.folded.Records, logread.Size
	if f.wanted.Bodies {
		bodies = logread.After
	}
	var reader *consumer.Reader
	reader = f.log.Changes(ctx, logread.Changes{Span: p, Bodies: bodies,
		Each: func() {
			f.folded.Records = before + reader.Records()
			progress(f.folded)
		},
		Keys:     func(plain []byte) { f.counts[p.Topic].See(plain, p.Partition) },
		Selected: func(l *sinks.Logged) bool { return f.wanted.Stream(l.Stream.ID()) },
		Loose:    f.holds,
		Visit: func(l *sinks.Logged) error {
			f.folded.Bytes += int64(len(l.Key) + len(l.Value))
			return visit(&l.Change)
		}})
	err := reader.ReadTo(ctx, p.Next-1)
	f.folded.Records = before + reader.Records()
	return err
}

// holds reports whether a change counts. A change of an unfinished batch does not: it was written again, or will be. But if a
// stream has no known position, or its topic has lost records, a list is compared with all that consumers have read. Then it
// counts.
func (f *stateFold) holds(_ context.Context, l *sinks.Logged) (bool, error) {
	position := f.history.streams[l.Stream.ID()].ResourceVersion
	return f.history.owners.Finished(l) || position == "" || position == change.UnknownVersion || f.log.lossy[l.Topic] != nil, nil
}

// pin stores in the checkpoint over how many partitions each topic's keys are spread, for all slots. The log says so, or else the
// keys show it. If partitions were added, that is less than the topic has now.
func (f *stateFold) pin(ctx context.Context) error {
	spread := maps.Clone(f.history.spread)
	for topic, count := range f.counts {
		spread[topic] = cmp.Or(spread[topic], count.Likely())
	}
	for topic, n := range spread {
		if n > 0 {
			if _, err := f.log.Config.Pin(ctx, topic, n, false); err != nil {
				return fmt.Errorf("record how many partitions of %s are written to: %w", topic, err)
			}
		}
	}
	f.log.Writable.Forget()
	return nil
}
