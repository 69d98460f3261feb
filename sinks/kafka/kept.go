package kafka

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
)

// KeptSince derives the time from what compaction may have removed, by the topic's settings, and from where each partition
// begins. It is zero if nothing can be gone.
func (r *Reader) KeptSince(ctx context.Context, resource string) (since time.Time, err error) {
	topic := change.TopicOf(r.envelope.Prefix, change.StreamID(resource))
	now := time.Now()
	starts, ends, err := r.sink.client.Bounds(ctx, topic)
	if err != nil || len(ends) == 0 {
		return time.Time{}, err
	}
	settings, err := r.settings(ctx, topic)
	if err != nil {
		return time.Time{}, err
	}
	compacted, limit := now.Add(-millisOf(settings[compactionLag])), now
	if settings[retention] != "-1" {
		limit = now.Add(-millisOf(settings[retention]))
	}
	for p, end := range ends {
		first, offset, err := r.first(ctx, topic, int32(p), starts[p], end)
		switch {
		case err != nil:
			return time.Time{}, err
		case starts[p] > 0 && first.IsZero():
			since = later(since, limit) // all of it was removed
		case starts[p] > 0:
			since = later(since, first)
		}
		// A first record that is young may follow others that were compacted.
		if strings.Contains(settings[cleanupPolicy], "compact") && end > 0 && (offset > 0 || first.Before(compacted)) {
			since = later(since, compacted)
		}
	}
	return since, nil
}

// settings are those of a topic about retention. If they may not be read, they are taken to be as the sink makes them.
func (r *Reader) settings(ctx context.Context, topic string) (map[string]string, error) {
	var settings map[string]string
	err := r.sink.client.Try(ctx, "read the configuration of "+topic, func(ctx context.Context) error {
		all, unread, err := r.sink.client.TopicConfigs(ctx, []string{topic}, cleanupPolicy, retention, compactionLag)
		if settings = all[topic]; len(unread) > 0 {
			settings = r.sink.dataTopic.config
		}
		return err
	})
	return settings, err
}

// first gives time and offset of the first record of a partition; a zero time and the end if it has none.
func (r *Reader) first(
	ctx context.Context, topic string, partition int32, start, end int64,
) (first time.Time, offset int64, err error) {
	offset = end
	reader := consumer.New(r.sink.client, consumer.Range{Topic: topic, Partition: partition, First: start, NoValues: true,
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
	n, _ := strconv.ParseInt(text, 10, 64) // as the broker writes it
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
