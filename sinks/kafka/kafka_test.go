package kafka_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/sinktest"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var prefixes atomic.Int64

// newConfig is a configuration with topics of its own.
func newConfig(t testing.TB, brokers []string) kafka.Config {
	t.Helper()
	return kafka.Config{
		Brokers: brokers, TopicPrefix: fmt.Sprintf("t%d-%d", time.Now().UnixNano(), prefixes.Add(1)),
		Cluster: "test", Partitions: 3, Version: "v0-test",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func newSink(t testing.TB, cfg kafka.Config) *kafka.Sink {
	t.Helper()
	s, err := kafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			broker := servers.SharedKafka(t)
			sinktest.Run(t, func(t *testing.T) func(t *testing.T) sinks.Sink {
				cfg := newConfig(t, broker.Brokers)
				cfg.Delivery = delivery
				return func(t *testing.T) sinks.Sink { return newSink(t, cfg) }
			})
		})
	}
}
