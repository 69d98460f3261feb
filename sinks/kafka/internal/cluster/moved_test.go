package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// A request that kafka-go itself sends also ends once the brokers' address leads to another cluster.
func TestARequestEndsWhenItsAddressHasMoved(t *testing.T) {
	start := func(id string) string {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID(id), kfake.SeedTopics(1, "pods"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c.ListenAddrs()[0]
	}
	mine, other := start("mine"), start("other")
	var moved atomic.Bool
	c := New(Options{Brokers: []string{mine}, RequestTimeout: time.Second, Logger: slog.New(slog.DiscardHandler), Stuck: func(error) {},
		Hint: func(error) string { return "" },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if moved.Load() {
				address = other
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	defer c.Close()
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	read := func() error {
		return c.Try(ctx, "read the configuration of pods", func(ctx context.Context) error {
			_, _, err := c.TopicConfigs(ctx, []string{"pods"}, "max.message.bytes")
			return err
		})
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	moved.Store(true)
	c.Close()
	for pace := time.Tick(20 * time.Millisecond); c.moved.Load() == nil; <-pace { // kafka-go holds its view of the cluster for a while
		_, _, _ = c.TopicConfigs(ctx, []string{"pods"}, "max.message.bytes")
		c.refresh()
	}
	var movedError *sinks.MovedError
	if err := read(); !errors.As(err, &movedError) {
		t.Fatalf("the error is %v", err)
	}
}
