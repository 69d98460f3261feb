package kafka_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

func TestMain(m *testing.M) { servers.Main(m) }

var prefixes atomic.Int64

// newConfig returns a configuration with its own topics.
func newConfig(t testing.TB, brokers []string) kafka.Config {
	t.Helper()
	return kafka.Config{
		Brokers: brokers, TopicPrefix: fmt.Sprintf("t%d-%d", time.Now().UnixNano(), prefixes.Add(1)),
		Cluster: sinktest.Name, ClusterUID: sinktest.UID, Partitions: 3, Version: "v0-test",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func newSink(t testing.TB, cfg kafka.Config) *kafka.Sink {
	t.Helper()
	s, err := kafka.New(cfg)
	mustDo(t, err)
	return s
}

// A delivery sets how batches are written.
type delivery func(kafka.Config) kafka.Config

// Batches are transactions, by each protocol.
var inTransactions = map[string]delivery{
	"exactly-once":               func(cfg kafka.Config) kafka.Config { return cfg },
	"exactly-once by protocol 2": func(cfg kafka.Config) kafka.Config { cfg.Protocol2 = true; return cfg },
}

var deliveries = map[string]delivery{
	"exactly-once": inTransactions["exactly-once"], "exactly-once by protocol 2": inTransactions["exactly-once by protocol 2"],
	"at-least-once": func(cfg kafka.Config) kafka.Config { cfg.Delivery = kafka.AtLeastOnce; return cfg },
}

// By protocol 1 the complete suite runs on several brokers. Here protocol 1 only writes, and a reader finds the same records as
// by protocol 2.
func TestContract(t *testing.T) {
	for name, delivery := range deliveries {
		t.Run(name, func(t *testing.T) {
			broker := servers.SharedKafka(t)
			sinktest.Run(t, func(t *testing.T) sinktest.Place {
				p := place(delivery(newConfig(t, broker.Brokers)))
				if name == "exactly-once" {
					p.Brief, p.Reader = true, nil
				}
				return p
			})
		})
	}
}

// place returns where the configuration writes.
func place(cfg kafka.Config) sinktest.Place {
	return sinktest.Place{ByTopic: true,
		Connect: func(t *testing.T) sinks.Sink { return newSink(t, cfg) },
		Another: func(t *testing.T, cluster, uid string) sinks.Sink {
			other := cfg
			other.Cluster, other.ClusterUID = cluster, uid
			return newSink(t, other)
		},
		DeadLetters: func(t *testing.T) []change.Malformed { return malformed(t, cfg) },
		Remove:      func(t *testing.T, plural string) { removeRecords(t, cfg.Brokers, cfg.TopicPrefix+"."+plural) },
		Reader: func(t *testing.T, cluster string) sinks.ReadCloser {
			read := cfg
			read.Cluster, read.ClusterUID = cluster, ""
			r, err := kafka.OpenReader(servers.Context(t), read)
			mustDo(t, err)
			return r
		},
	}
}

// removeRecords removes all records of a topic, like kafka-delete-records.
func removeRecords(t *testing.T, brokers []string, topic string) {
	t.Helper()
	admin := kadmOf(t, brokers)
	ends, err := admin.ListEndOffsets(servers.Context(t), topic)
	mustDo(t, err)
	_, err = admin.DeleteRecords(servers.Context(t), ends.Offsets())
	mustDo(t, err)
}

// malformed joins the parts of malformed events.
func malformed(t *testing.T, cfg kafka.Config) (all []change.Malformed) {
	index := map[string]int{}
	for _, list := range newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".dead-letter") {
		for _, r := range list {
			h := headers(r)
			id := h["dead-letter"]
			if h["part"] == "0" {
				index[id] = len(all)
				all = append(all, change.Malformed{Stream: change.StreamID(h["stream"]), Reason: h["reason"]})
			}
			m := &all[index[id]]
			m.Bytes = append(m.Bytes, r.Value...)
			if h["slot"] != "3" || h["epoch"] != "1" || h["batch"] == "" {
				t.Errorf("headers %v", h)
			}
		}
	}
	return all
}
