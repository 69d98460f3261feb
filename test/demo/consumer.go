package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/test/kafkatopics"
)

// consumer reads all topics of the exporter as they come, and only what is committed: an ordinary Kafka consumer,
// which shares nothing with the exporter.
type consumer struct {
	client *kgo.Client

	mu      sync.Mutex
	log     *topicLog
	err     error
	changed chan struct{} // closed when log or err changes
}

func newConsumer(brokers string) (*consumer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+regexp.QuoteMeta(topicPrefix)+`\.`), // also topics that do not exist yet
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that offsets have no holes
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(200*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	return &consumer{client: client, log: newTopicLog(), changed: make(chan struct{})}, nil
}

// run reads until ctx ends.
func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := c.client.PollFetches(ctx)
		c.mu.Lock()
		fetches.EachError(func(topic string, _ int32, err error) {
			if ctx.Err() == nil && c.err == nil {
				c.err = fmt.Errorf("consume %s: %w", topic, err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			if err := c.log.take(r); err != nil && c.err == nil {
				c.err = err
			}
		})
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}

// read calls see with the log, and returns a channel that is closed when there is more to see.
func (c *consumer) read(see func(*topicLog)) (changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	see(c.log)
	return c.changed, c.err
}

// ends are the offsets up to which everything in the topics is committed.
func (c *consumer) ends(ctx context.Context) (map[kafkatopics.Partition]int64, error) {
	admin := kadm.NewClient(c.client)
	listed, err := kafkatopics.Offsets(ctx, admin, kafkatopics.Under(topicPrefix), admin.ListCommittedOffsets)
	if err != nil {
		return nil, err
	}
	ends := map[kafkatopics.Partition]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[kafkatopics.Partition{Topic: o.Topic, Number: o.Partition}] = o.Offset })
	return ends, nil
}
