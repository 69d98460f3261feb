package main

import (
	"context"
	"errors"
	"os"

	"github.com/dustin/go-humanize"
)

// tour is a running demo. Its chapters are the methods that runTour calls, in order.
type tour struct {
	screen   *screen
	stack    *stack
	cluster  *cluster
	consumer *consumer
	exporter *process // the one that runs, or ran last
}

// runTour runs all chapters, and then stops everything that they started.
func runTour(ctx context.Context, s *screen) (err error) {
	s.print(s.paint(bold, "kubecdc: every change of a Kubernetes cluster, in Kafka, in order, with nothing missing"))
	t := &tour{screen: s}
	defer func() { err = errors.Join(err, t.end()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, chapter := range []func(context.Context) error{t.servers, t.snapshot, t.live, t.blind} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	verdict := t.reckoning(ctx)
	if verdict != nil && !errors.Is(verdict, errDiffers) {
		return verdict
	}
	t.showNext(ctx)
	return verdict
}

// end ends the exporter, then the servers.
func (t *tour) end() error {
	defer t.screen.wait("everything to end")()
	if t.exporter != nil {
		t.exporter.stop()
	}
	if t.consumer != nil {
		t.consumer.client.Close()
	}
	if t.stack != nil {
		return t.stack.stop()
	}
	return nil
}

func keep() bool { return os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0" }

func comma[N int | int64 | uint64](n N) string { return humanize.Comma(int64(n)) }
