package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// witness consumes a topic, committed records only, and records when it had each of them.
type witness struct {
	client *kgo.Client
	mu     sync.Mutex
	seen   map[string]time.Time // by resourceVersion
	more   chan struct{}        // closed when there are more
}

func (b *bench) watchTopic(ctx context.Context, topic string) (*witness, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers...), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	w := &witness{client: client, seen: map[string]time.Time{}, more: make(chan struct{})}
	go w.run(ctx)
	return w, nil
}

func (w *witness) close() { w.client.Close() }

func (w *witness) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := w.client.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		w.record(fetches, time.Now())
	}
}

func (w *witness) record(fetches kgo.Fetches, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		for _, h := range r.Headers {
			if h.Key == "resourceVersion" {
				w.seen[string(h.Value)] = now
			}
		}
	})
	close(w.more)
	w.more = make(chan struct{})
}

// await waits for the record of a version, and returns when it came.
func (w *witness) await(ctx context.Context, version string) (time.Time, error) {
	for {
		w.mu.Lock()
		moment, ok := w.seen[version]
		more := w.more
		w.mu.Unlock()
		if ok {
			return moment, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return moment, fmt.Errorf("no record of resourceVersion %s", version)
		}
	}
}
