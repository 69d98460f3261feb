// Package kafkatopics reads Kafka's topics as a consumer does that shares nothing with the exporter: from their start to the end that
// they have now.
package kafkatopics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Wanted chooses topics by their names.
type Wanted func(topic string) bool

// Under wants all topics of a prefix.
func Under(prefix string) Wanted {
	return func(topic string) bool { return strings.HasPrefix(topic, prefix+".") }
}

// These wants topics by their names.
func These(names ...string) Wanted {
	return func(topic string) bool { return slices.Contains(names, topic) }
}

// Reading says what is read.
type Reading struct {
	Brokers     []string
	Wanted      Wanted
	Uncommitted bool               // with the records of aborted transactions
	After       kadm.ListedOffsets // where to begin, which is the first record in all other partitions
}

// Read visits the records up to the last stable offsets, which it returns. It visits each partition's records in their order, without
// the records that end transactions.
func (r Reading) Read(ctx context.Context, visit func(*kgo.Record) error) (ends kadm.ListedOffsets, err error) {
	level := kgo.ReadCommitted()
	if r.Uncommitted {
		level = kgo.ReadUncommitted()
	}
	// Records that end transactions are read, so that the last offset of each partition is seen.
	client, err := kgo.NewClient(kgo.SeedBrokers(r.Brokers...), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	start, err := Offsets(ctx, admin, r.Wanted, admin.ListStartOffsets)
	if err == nil {
		ends, err = Offsets(ctx, admin, r.Wanted, admin.ListCommittedOffsets)
	}
	if err != nil {
		return nil, err
	}
	r.After.Each(func(o kadm.ListedOffset) { start[o.Topic][o.Partition] = o })
	for left := begin(client, start, ends); len(left) > 0 && err == nil; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read topics: %w; not at their end: %v", context.Cause(ctx), left)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if left.take(record) && err == nil {
				err = visit(record)
			}
		})
	}
	return ends, err
}

// Records are all that Read visits.
func (r Reading) Records(ctx context.Context) (all []*kgo.Record, err error) {
	_, err = r.Read(ctx, func(record *kgo.Record) error { all = append(all, record); return nil })
	return all, err
}

// Offsets lists offsets once the leaders of all partitions give them. A leader that is being elected, or a topic that is new or deleted,
// is unknown for a moment.
func Offsets(ctx context.Context, admin *kadm.Client, wanted Wanted,
	list func(context.Context, ...string) (kadm.ListedOffsets, error)) (listed kadm.ListedOffsets, err error) {
	for {
		all, err := admin.ListTopics(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the topics: %w", err)
		}
		names := slices.DeleteFunc(all.Names(), func(topic string) bool { return !wanted(topic) })
		if len(names) == 0 {
			return nil, nil
		}
		if listed, err = list(ctx, names...); err == nil && listed.Error() == nil {
			return listed, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list the offsets of %v: %w", names, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Partition is one of a topic.
type Partition struct {
	Topic  string
	Number int32
}

// unread has the end of each partition that was not read to it.
type unread map[Partition]int64

// begin has the client consume the partitions that have records.
func begin(client *kgo.Client, start, ends kadm.ListedOffsets) unread {
	left, offsets := unread{}, map[string]map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		from, _ := start.Lookup(o.Topic, o.Partition)
		if from.Offset >= o.Offset {
			return
		}
		if offsets[o.Topic] == nil {
			offsets[o.Topic] = map[int32]kgo.Offset{}
		}
		offsets[o.Topic][o.Partition] = kgo.NewOffset().At(from.Offset)
		left[Partition{o.Topic, o.Partition}] = o.Offset
	})
	client.AddConsumePartitions(offsets)
	return left
}

// take reports whether the record is data from before the end.
func (u unread) take(record *kgo.Record) bool {
	partition := Partition{record.Topic, record.Partition}
	end, ok := u[partition]
	if record.Offset >= end-1 {
		delete(u, partition)
	}
	return ok && record.Offset < end && !record.Attrs.IsControl()
}
