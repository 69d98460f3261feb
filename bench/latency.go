package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// latency measures the time from a change in the API server to its record in the hands of a consumer, at rest: one
// change at a time, at random moments. The consumer reads committed records only.
func latency(settings ...setting) func(context.Context, *bench) ([]result, error) {
	const changes = 200
	return func(ctx context.Context, b *bench) ([]result, error) {
		server, err := b.startServer(ctx, "-objects", "1000")
		if err != nil {
			return nil, err
		}
		defer server.stop()
		e, err := b.startExporter(ctx, server.kubeconfig, settingsOf(settings))
		if err != nil {
			return nil, err
		}
		defer e.close()
		topic := fmt.Sprintf("bench%d.pods", b.runs)
		if err := e.follow(ctx, server, 1, "send", 0); err != nil {
			return nil, err
		}
		seen, err := b.consume(ctx, topic)
		if err != nil {
			return nil, err
		}
		var took []time.Duration
		r, err := e.during(func() error {
			for range changes {
				time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
				delay, err := delayOfOne(ctx, server, seen)
				if err != nil {
					return err
				}
				took = append(took, delay)
			}
			return nil
		})
		took = took[min(20, len(took)):] // warm
		slices.Sort(took)
		r.name, r.allocs = b.row, 0
		if len(took) > 0 {
			r.note = fmt.Sprintf("p50 %s, p99 %s, max %s", ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1]))
		}
		return []result{r}, err
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// sighting is a record that the consumer has.
type sighting struct {
	version string
	at      time.Time
}

func delayOfOne(ctx context.Context, server *apiServer, seen <-chan sighting) (time.Duration, error) {
	started := time.Now()
	version, err := server.do(ctx, "send", 1)
	if err != nil {
		return 0, err
	}
	for {
		select {
		case s := <-seen:
			if s.version == strconv.FormatUint(version, 10) {
				return s.at.Sub(started), nil
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("no record of resourceVersion %d", version)
		}
	}
}

// consume gives the records of a topic as they come.
func (b *bench) consume(ctx context.Context, topic string) (<-chan sighting, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers...), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	seen := make(chan sighting, 10_000)
	go func() {
		defer client.Close()
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			now := time.Now()
			fetches.EachRecord(func(r *kgo.Record) {
				for _, h := range r.Headers {
					if h.Key == "resourceVersion" {
						seen <- sighting{string(h.Value), now}
					}
				}
			})
		}
	}()
	return seen, nil
}
