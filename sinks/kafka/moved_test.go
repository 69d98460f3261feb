package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// From some moment on the address leads to another Kafka. Nothing is written there, and the error names both clusters.
func TestAnAddressThatLeadsToAnotherKafka(t *testing.T) {
	t.Parallel()
	other := servers.SharedKafka(t)
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			mine := servers.LendKafka(t)
			cfg := newConfig(t, mine.ProxiedBrokers)
			cfg.Delivery = delivery
			o := &owner{cfg: cfg}
			mustDo(t, o.open(t))
			b := lives(1, 9, 3)
			offsets, err := o.log.Write(servers.Context(t), b)
			mustDo(t, err)
			o.durable(b, offsets)
			mine.Proxy.Retarget(other.Brokers[0])
			mine.Proxy.Drop()
			_, err = o.log.Write(servers.Context(t), lives(2, 9, 3))
			wantMoved(t, err, mine, other)
			_, err = o.sink.Open(servers.Context(t), 0, 2, o.from)
			wantMoved(t, err, mine, other)
			mustDo(t, o.sink.Close())
			topics, err := kadmOf(t, other.Brokers).ListTopics(servers.Context(t))
			mustDo(t, err)
			for _, name := range topics.Names() {
				if strings.HasPrefix(name, cfg.TopicPrefix) {
					t.Errorf("the other Kafka has a topic %s now", name)
				}
			}
			wantOnce(t, newReader(t, mine.Brokers).committed(t, mine.Brokers, cfg.TopicPrefix+".pods"), b)
		})
	}
}

func wantMoved(t *testing.T, err error, clusters ...*servers.Kafka) {
	t.Helper()
	var moved *sinks.MovedError
	if !errors.As(err, &moved) {
		t.Fatalf("the error is %v", err)
	}
	for _, k := range clusters {
		if !strings.Contains(err.Error(), k.ClusterID) {
			t.Errorf("the error does not name %s: %v", k.ClusterID, err)
		}
	}
}

func kadmOf(t *testing.T, brokers []string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	mustDo(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}
