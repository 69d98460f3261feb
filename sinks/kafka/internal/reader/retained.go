package reader

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

// Retained returns what the resources' topics still have.
func (r *Reader) Retained(ctx context.Context, resources []string) (map[string]sinks.Retained, error) {
	topics, err := r.topics(ctx, resources)
	if err != nil {
		return nil, err
	}
	if len(resources) == 0 {
		resources = r.idsOf(topics)
	}
	removed, err := r.removed(ctx, topics)
	if err != nil {
		return nil, fmt.Errorf("find out whether the log has lost changes: %w", err)
	}
	all := map[string]sinks.Retained{}
	for _, id := range resources {
		topic := change.TopicOf(r.Envelope.Prefix, change.StreamID(id))
		if !slices.Contains(topics, topic) {
			continue
		}
		since, err := r.retainedSince(ctx, topic)
		if err != nil {
			return nil, fmt.Errorf("find out since when every change of %s is retained: %w", id, err)
		}
		all[id] = sinks.Retained{Since: since, Lost: removed[r.Envelope.Cluster][r.idsOf([]string{topic})[0]]}
	}
	return all, nil
}

// retainedSince finds the time from three facts: the holes that compaction left, what the topic's settings let compaction remove,
// and where each partition begins. It is zero if nothing can be gone.
func (r *Reader) retainedSince(ctx context.Context, topic string) (since time.Time, err error) {
	now := time.Now()
	starts, ends, err := r.Client.Bounds(ctx, topic)
	if err != nil || len(ends) == 0 {
		return time.Time{}, err
	}
	settings, err := r.settings(ctx, topic)
	if err != nil {
		return time.Time{}, err
	}
	compacted, limit := now.Add(-millisOf(settings[admin.CompactionLag])), now
	if settings[admin.RetentionTime] != "-1" {
		limit = now.Add(-millisOf(settings[admin.RetentionTime]))
	}
	for p, end := range ends {
		first, offset, err := r.first(ctx, topic, int32(p), starts[p], end)
		switch {
		case err != nil:
			return time.Time{}, err
		case starts[p] > 0 && first.IsZero():
			since = later(since, limit) // all of it is gone
		case starts[p] > 0:
			since = later(since, first)
		}
		// A young first record may follow others that were compacted.
		if strings.Contains(settings[admin.CleanupPolicy], "compact") && end > 0 && (offset > 0 || first.Before(compacted)) {
			since = later(since, compacted)
		}
	}
	complete, err := r.completeSince(ctx, topic, starts, ends, since)
	return later(since, complete), err
}

// completeSince returns since when the partitions have no holes, among the records after a time. Only holes show that, since the
// settings may have been different when the topic was compacted.
func (r *Reader) completeSince(ctx context.Context, topic string, starts, ends map[int]int64, after time.Time) (since time.Time,
	err error) {
	from := starts
	if !after.IsZero() {
		if from, err = r.begins(ctx, topic, starts, ends, after); err != nil {
			return since, err
		}
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(scanAtOnce)
	for p, end := range ends {
		if from[p] >= end {
			continue
		}
		g.Go(func() error {
			_, ended, err := r.lastHole(ctx, logread.Span{Topic: topic, Partition: int32(p), First: from[p], Next: end})
			mu.Lock()
			defer mu.Unlock()
			since = later(since, ended)
			return err
		})
	}
	err = g.Wait()
	return since, err
}

// maxControls is how many control records are read to find out when a hole was written: a second or two.
const maxControls = 200_000

// begins returns where the records of each partition begin that were written after a time. There may be a hole before the first
// of the remaining ones. Then batch records show whether some of it was written after the time, unless they are too many to read.
func (r *Reader) begins(ctx context.Context, topic string, starts, ends map[int]int64, after time.Time) (map[int]int64, error) {
	from, err := r.Client.Since(ctx, topic, after)
	holes := map[int]bool{}
	for p, end := range ends {
		if from[p] < 0 {
			from[p] = end
		}
		if err == nil && from[p] > starts[p] {
			holes[p], err = r.lacks(ctx, topic, p, from[p]-1)
		}
	}
	if err != nil || !slices.Contains(slices.Collect(maps.Values(holes)), true) {
		return from, err
	}
	first, err := r.since(ctx, after)
	if err != nil {
		return nil, err
	}
	last, err := r.Client.Ends(ctx, r.ControlTopic())
	total := int64(0)
	for p, end := range last {
		total += max(end-first[p], 0)
	}
	if err != nil || total > maxControls {
		return from, err
	}
	return from, r.controls(ctx, first, func(c logread.Control) error {
		for p, offsets := range c.Ranges[topic] {
			if holes[p] {
				from[p] = min(from[p], offsets[0])
			}
		}
		return nil
	})
}

// lacks reports whether a partition has no record at an offset any more.
func (r *Reader) lacks(ctx context.Context, topic string, partition int, offset int64) (bool, error) {
	none := func(*consumer.Record) bool { return false }
	reader := consumer.New(r.Client, consumer.Range{Topic: topic, Partition: int32(partition), First: offset, NoValues: true,
		Wanted: none})
	err := reader.ReadTo(ctx, offset)
	_, next := reader.Hole()
	return next > offset, err
}

// lastHole returns the last hole of a span, and the time of the first record after it. It returns an empty span if there is none.
func (r *Reader) lastHole(ctx context.Context, s logread.Span) (hole logread.Span, t time.Time, err error) {
	var reader *consumer.Reader
	var newest time.Time
	hole = logread.Span{Topic: s.Topic, Partition: s.Partition, First: s.First, Next: s.First}
	see := func(first, latest time.Time) {
		newest = later(newest, first)
		if from, next := reader.Hole(); next > hole.Next {
			hole.First, hole.Next, t = from, next, newest
		}
		newest = later(newest, latest)
	}
	reader = consumer.New(r.Client, consumer.Range{Topic: s.Topic, Partition: s.Partition, First: s.First, NoValues: true,
		Complete: see,
		Wanted: func(f *consumer.Record) bool {
			see(f.Time, f.Time)
			return false
		}})
	err = reader.ReadTo(ctx, s.Next-1)
	if from, next := reader.Hole(); err == nil && next > hole.Next {
		hole.First, hole.Next, t = from, next, time.Now() // no record remains after it
	}
	return hole, t, err
}

// settings returns a topic's settings about retention. Without the right to read them it returns those with which the sink
// creates topics.
func (r *Reader) settings(ctx context.Context, topic string) (map[string]string, error) {
	var settings map[string]string
	err := r.Client.Try(ctx, "read the configuration of "+topic, func(ctx context.Context) error {
		all, unread, err := r.Client.TopicConfigs(ctx, []string{topic}, admin.CleanupPolicy, admin.RetentionTime,
			admin.CompactionLag)
		settings = all[topic]
		if len(unread) > 0 {
			settings = r.created
		}
		return err
	})
	return settings, err
}

// first returns time and offset of the first record of a partition. If it has none, it returns a zero time and the end.
func (r *Reader) first(
	ctx context.Context, topic string, partition int32, start, end int64,
) (first time.Time, offset int64, err error) {
	offset = end
	reader := consumer.New(r.Client, consumer.Range{Topic: topic, Partition: partition, First: start, NoValues: true,
		Wanted: func(f *consumer.Record) bool {
			if first.IsZero() {
				first, offset = f.Time, f.Offset
			}
			return false
		}})
	for more := true; more && err == nil && first.IsZero(); {
		more, err = reader.Fetch(ctx, end-1)
	}
	return first, offset, err
}

func millisOf(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64) // the broker's own text
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
