package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// twoBrokers starts a real cluster of two brokers, in which every partition has a replica on both.
func twoBrokers(t *testing.T) (first, second *servers.Kafka, seeds []string) {
	t.Helper()
	first = startKafka(t, servers.KafkaOptions{Joined: true, Properties: map[string]string{
		"default.replication.factor": "2", "transaction.state.log.replication.factor": "2", "offsets.topic.replication.factor": "2"}})
	second, err := first.Join(servers.Context(t))
	mustDo(t, err)
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	return first, second, append(first.Brokers, second.Brokers...)
}

// One of two real brokers is killed, started again, restarted and frozen.
func TestSlowABrokerOfTwoDies(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	_, second, seeds := twoBrokers(t)
	for name, delivery := range inTransactions {
		t.Run(name, func(t *testing.T) {
			brokerDies(t, delivery(newConfig(t, seeds)), func(await func(n int)) {
				second.Kill()
				await(9)
				mustDo(t, second.Start(servers.Context(t)))
				await(6)
				mustDo(t, second.Restart(servers.Context(t)))
				await(6)
				mustDo(t, second.Pause())
				await(9)
				mustDo(t, second.Resume())
			})
		})
	}
	t.Run("at-least-once", func(t *testing.T) {
		brokerDies(t, deliveries["at-least-once"](newConfig(t, seeds)), func(await func(n int)) {
			second.Kill()
			await(9)
			mustDo(t, second.Start(servers.Context(t)))
		})
	})
	t.Run("too few replicas", func(t *testing.T) { tooFewReplicas(t, second, seeds) })
	t.Run("probe", func(t *testing.T) { probeFollowsTheBrokers(t, second, seeds) })
}

// probeFollowsTheBrokers checks that a broker that does not answer fails the probe, until the cluster does not name it any more.
func probeFollowsTheBrokers(t *testing.T, second *servers.Kafka, seeds []string) {
	sink := newSink(t, newConfig(t, seeds))
	probe := func() error {
		ctx, cancel := context.WithTimeout(servers.Context(t), time.Second)
		defer cancel()
		return sink.Probe(ctx)
	}
	await := func(want string) {
		t.Helper()
		servers.Await(t, fmt.Sprintf("the probe to say %q", want), func() (bool, error) {
			err := probe()
			return (err == nil) == (want == "") && strings.Contains(fmt.Sprint(err), want), nil
		})
	}
	await("")
	mustDo(t, second.Pause())
	await("the broker does not answer")
	await("")
	mustDo(t, second.Resume())
}

// brokerDies has several slots write while a broker fails that leads half of the partitions and coordinates half of the
// transactions. Every batch is in the log once.
func brokerDies(t *testing.T, cfg kafka.Config, breaks func(await func(n int))) {
	t.Helper()
	cfg.RequestTimeout = 2 * time.Second
	underFaults(t, cfg, cfg.Brokers, time.Minute, func(written func() int) {
		await(t, written, 6)
		breaks(func(n int) { await(t, written, n) })
		await(t, written, 6)
	})
}

// tooFewReplicas checks min.insync.replicas=2 with one of two replicas down. The sink waits, reports it with a hint, and goes on
// when the replica is back.
func tooFewReplicas(t *testing.T, second *servers.Kafka, seeds []string) {
	cfg, h := newConfig(t, seeds), &heard{stuck: make(chan error, 100)}
	cfg.Observer = h
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	one, two := lives(1, 3, 2), lives(2, 3, 2)
	mustWrite(t, log, one)
	demandBoth(t, seeds, cfg.TopicPrefix+".pods")
	second.Kill()
	back := make(chan error, 1)
	go func() { back <- startWhenReported(t, second, h) }()
	mustWrite(t, log, two)
	mustDo(t, <-back)
	wantOnce(t, newReader(t, seeds).committed(t, seeds, cfg.TopicPrefix+".pods"), one, two)
}

// startWhenReported starts the broker once the sink has reported missing replicas.
func startWhenReported(t *testing.T, k *servers.Kafka, h *heard) error {
	late, cancel := servers.Patient(t.Context())
	defer cancel()
	for {
		select {
		case err := <-h.stuck:
			if err == nil || !strings.Contains(err.Error(), "start the brokers that hold the replicas") {
				continue // the leader moves first
			}
		case <-late.Done():
			t.Error("the sink did not say that replicas are missing")
		}
		return k.Start(servers.Context(t))
	}
}

func demandBoth(t *testing.T, seeds []string, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	mustDo(t, err)
	defer client.Close()
	two := "2"
	results, err := kadm.NewClient(client).AlterTopicConfigs(servers.Context(t), []kadm.AlterConfig{{Name: "min.insync.replicas", Value: &two}}, topic)
	mustDo(t, err)
	for _, r := range results {
		mustDo(t, r.Err)
	}
}
