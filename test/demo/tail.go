package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tail prints the records of a demo that is kept running, from now on.
func tail(ctx context.Context, s *screen, brokers string) error {
	client, err := newClient(brokers, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	s.note("The records from now on; Ctrl-C ends this. On the right, the age of each.")
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if parsed, err := parseRecord(r); err == nil && parsed.op != "" {
				s.record(parsed, time.Since(r.Timestamp))
			}
		})
	}
	return nil
}
