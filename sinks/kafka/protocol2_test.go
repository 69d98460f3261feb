package kafka_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
	"kubecdc/test/servers"
)

// The feature is lowered while a slot writes, and raised again. Each session uses what the cluster has agreed on, and logs it.
// The log has every batch once.
func TestTheProtocolFollowsTheFeature(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	cfg := newestConfig(t, broker.Brokers)
	o := &owner{cfg: cfg}
	mustDo(t, o.open(t))
	for _, level := range []int16{2, 1, 0, 2} {
		setFeature(t, broker, level)
		for range 2 { // the session goes on until it needs another connection, whose broker refuses protocol 2
			b := o.next(5)
			offsets, err := o.log.Write(servers.Context(t), b)
			if errors.Is(err, cluster.ErrOlderTransactions) {
				break
			}
			mustDo(t, err)
			o.durable(b, offsets)
		}
		mustDo(t, o.open(t))
		o.write(t, 5)
		report, err := o.sink.Check(servers.Context(t), nil)
		mustDo(t, err)
		if two := report.How == "transactions by protocol 2"; two != (level == 2) {
			t.Errorf("with transaction.version %d check says %q", level, report.How)
		}
	}
	wantOnce(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), o.batches...)
}

// setFeature sets transaction.version, and returns once the broker knows it.
func setFeature(t *testing.T, broker *servers.Kafka, level int16) {
	t.Helper()
	admin := kadmOf(t, broker.Brokers)
	kind := int8(2) // a safe downgrade
	if level == 2 {
		kind = 1
	}
	done, err := admin.UpdateFeatures(servers.Context(t), false, kadm.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: level, UpgradeType: kind})
	mustDo(t, err)
	for _, f := range done {
		mustDo(t, f.Err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Brokers...))
	mustDo(t, err)
	defer client.Close()
	servers.Await(t, "the broker to know the feature", func() (bool, error) {
		res, err := kmsg.NewPtrApiVersionsRequest().RequestWith(servers.Context(t), client)
		if err != nil {
			return false, err
		}
		has := slices.IndexFunc(res.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
			return f.Name == "transaction.version" && f.MaxVersionLevel > 0
		})
		return has < 0 && level == 0 || has >= 0 && res.FinalizedFeatures[has].MaxVersionLevel == level, nil
	})
}

// One broker is older than the others. No request of protocol 2 reaches it: the slot uses protocol 1 while that broker is there.
// If it comes while a session uses protocol 2, that session ends.
func TestOneOlderBroker(t *testing.T) {
	c := fakeCluster(t)
	o := &owner{cfg: newestConfig(t, c.ListenAddrs())}
	node := (c.CoordinatorFor(o.cfg.TransactionalID(o.cfg.ClusterUID, 0)) + 1) % 3
	move := func(topic string, to int32) {
		for p := range int32(o.cfg.Partitions) {
			mustDo(t, c.MoveTopicPartition(o.cfg.TopicPrefix+topic, p, to))
		}
	}
	for _, topic := range []string{".pods", ".control"} {
		mustDo(t, c.CreateTopic(o.cfg.TopicPrefix+topic, int32(o.cfg.Partitions), map[string]string{"retention.ms": "-1"}))
		move(topic, (node+1)%3)
	}
	mustDo(t, o.open(t))
	o.write(t, 5)
	c.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked := req.(*kmsg.ApiVersionsRequest); c.CurrentNode() != node || asked.ClientSoftwareName != "kubecdc" {
			return nil, nil, false // from another client, such as the test's
		}
		res := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		res.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(kmsg.Produce), MaxVersion: 11}}
		return res, nil, true
	})
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() == node && req.GetVersion() > 11 {
			t.Error("an older broker gets a request of protocol 2")
		}
		return nil, nil, false
	})
	move(".pods", node)
	_, err := o.log.Write(servers.Context(t), o.next(8))
	if !errors.Is(err, cluster.ErrOlderTransactions) || !strings.Contains(err.Error(), "older than Kafka 4.0") {
		t.Errorf("Write = %v", err)
	}
	mustDo(t, o.open(t))
	o.write(t, 5)
	wantOnce(t, newReader(t, o.cfg.Brokers).committed(t, o.cfg.Brokers, o.cfg.TopicPrefix+".pods"), o.batches...)
}

// A producer's epochs end. The coordinator gives it another id between two of its transactions, and none of them is lost,
// repeated or joined with another. A real broker takes minutes for as many transactions.
func TestEpochsOverflow(t *testing.T) {
	c := fakeCluster(t, kfake.SeedTopics(1, "t"))
	client := cluster.New(cluster.Options{Brokers: c.ListenAddrs(), Dial: (&net.Dialer{}).DialContext, RequestTimeout: 30 * time.Second,
		ReplicationFactor: -1, Logger: slog.New(slog.DiscardHandler), Stuck: func(error) {}, Hint: func(error) string { return "" }})
	defer client.Close()
	const topic = "t"
	p, err := producer.New(servers.Context(t), client, producer.Options{TransactionalID: "near", Timeout: time.Minute})
	mustDo(t, err)
	partition := producer.NewTopic(topic, 1, 1<<20).Partitions[0]
	for range math.MaxInt16 - 10 { // aborting an empty transaction takes an epoch
		mustDo(t, p.Add(servers.Context(t), partition))
		mustDo(t, p.End(servers.Context(t), false))
	}
	for i := range 20 {
		partition.Reset()
		partition.QueueRecord(recordbatch.Record{Key: []byte("k"), Value: [][]byte{fmt.Append(nil, i)}})
		mustDo(t, p.Add(servers.Context(t), partition))
		mustDo(t, p.Produce(servers.Context(t), partition))
		mustDo(t, p.End(servers.Context(t), i != 3))
	}
	ends, err := client.Ends(servers.Context(t), topic)
	mustDo(t, err)
	var got []string
	mustDo(t, consumer.New(client, consumer.Range{Topic: topic, Visit: func(r consumer.Record) error {
		got = append(got, string(r.Value))
		return nil
	}}).ReadTo(servers.Context(t), ends[0]-1))
	if len(got) != 19 || slices.Contains(got, "3") || !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("the topic has %v", got)
	}
}

// A broker has lost a slot's last record, and another slot has written there since. The open session notices that, although its
// next transaction begins a new sequence, which the broker accepts.
func TestALossIsNoticedByAnOpenSession(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	cfg := newestConfig(t, broker.Brokers)
	cfg.Partitions = 1
	o, other := &owner{cfg: cfg}, &owner{cfg: cfg, slot: 1}
	mustDo(t, o.open(t))
	mustDo(t, other.open(t))
	other.write(t, 9)
	o.write(t, 9)
	o.write(t, 1, firstOnly)
	cutOff(t, broker, cfg.TopicPrefix+".pods", 1)
	other.write(t, 9)
	if _, err := o.log.Write(servers.Context(t), o.next(1, firstOnly)); err == nil || !strings.Contains(err.Error(), "another record") {
		t.Fatalf("Write = %v", err)
	}
	o.record(t, o.wantLost(t, "pods"))
	mustDo(t, o.open(t))
	o.write(t, 9)
}
