package kafka_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// fakeCluster is kfake, an in-process cluster of several brokers, which returns errors that a real broker rarely does.
func fakeCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(3))...)
	mustDo(t, err)
	t.Cleanup(c.Close)
	return c
}

// protocol1 makes the brokers use protocol 1 for transactions.
var protocol1 = kfake.MaxVersions(kversion.V3_9_0())

// newestConfig returns a configuration that uses protocol 2 if the brokers do.
func newestConfig(t *testing.T, brokers []string) kafka.Config {
	cfg := newConfig(t, brokers)
	cfg.Protocol2 = true
	return cfg
}

// byProtocol has the options of a cluster for each protocol of transactions.
var byProtocol = map[string][]kfake.Opt{"protocol 1": {protocol1}, "protocol 2": nil}

func TestContractOnSeveralBrokers(t *testing.T) {
	for protocol, options := range byProtocol {
		t.Run(protocol, func(t *testing.T) {
			c := fakeCluster(t, options...)
			sinktest.Run(t, func(t *testing.T) sinktest.Place { return place(newestConfig(t, c.ListenAddrs())) })
		})
	}
}

// Leaders and coordinators move while several slots write.
func TestLeadersMove(t *testing.T) {
	t.Parallel()
	for protocol, options := range byProtocol {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t, options...)
			cfg := newestConfig(t, c.ListenAddrs())
			underFaults(t, cfg, c.ListenAddrs(), time.Minute, func(written func() int) {
				for range 20 {
					await(t, written, 1)
					c.ShufflePartitionLeaders()
					await(t, written, 1)
					c.RehashCoordinators()
				}
				await(t, written, 3)
			})
		})
	}
}

var writes = []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.EndTxn, kmsg.InitProducerID, kmsg.FindCoordinator}

// Requests that fail with a transient error are sent again until they succeed. The batch is in the log once.
func TestTransientErrorsAreRetried(t *testing.T) {
	for _, tc := range []struct {
		err  *kerr.Error
		keys []kmsg.Key
	}{
		{kerr.CoordinatorLoadInProgress, writes[1:]},
		{kerr.CoordinatorNotAvailable, writes[1:]},
		{kerr.NotCoordinator, writes[1:4]},
		{kerr.ConcurrentTransactions, writes[1:4]},
		{kerr.NotLeaderForPartition, writes[:1]},
		{kerr.LeaderNotAvailable, writes[:1]},
		{kerr.UnknownTopicOrPartition, writes[:2]},
		{kerr.RequestTimedOut, writes[:1]},
		{kerr.NotEnoughReplicas, writes[:1]},
		{kerr.NotEnoughReplicasAfterAppend, writes[:1]},
		{kerr.KafkaStorageError, writes[:1]},
		{kerr.NetworkException, writes[:1]},
		{kerr.FencedLeaderEpoch, []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}},
		{kerr.OffsetNotAvailable, []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}},
	} {
		eachProtocol(t, tc.err.Message, func(t *testing.T, c *kfake.Cluster, key func(kmsg.Key) kmsg.Key) {
			cfg := newestConfig(t, c.ListenAddrs())
			var faults []kfake.Fault
			for _, k := range tc.keys {
				faults = append(faults, fault(key(k), tc.err, 5))
			}
			hits := c.Fault(faults...)
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			first, second := lives(1, 30, 4), lives(2, 30, 4)
			mustWrite(t, log, first)
			mustWrite(t, log, second)
			_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
			if len(recovered) != 2 {
				t.Errorf("recovered %d batches, want 2", len(recovered))
			}
			if hits.Hits() < 5*len(tc.keys) {
				t.Errorf("only %d requests were answered with the error", hits.Hits())
			}
			hits.Remove()
			wantOnce(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), first, second)
		})
	}
}

// eachProtocol runs a test with each protocol of transactions. key maps a request of protocol 1 to the one that does the same.
func eachProtocol(t *testing.T, name string, run func(*testing.T, *kfake.Cluster, func(kmsg.Key) kmsg.Key)) {
	for protocol, options := range byProtocol {
		t.Run(name+" by "+protocol, func(t *testing.T) {
			t.Parallel()
			run(t, fakeCluster(t, options...), func(key kmsg.Key) kmsg.Key {
				if key == kmsg.AddPartitionsToTxn && options == nil {
					return kmsg.Produce
				}
				return key
			})
		})
	}
}

// fault puts an error into the field of an answer that is for errors.
func fault(key kmsg.Key, err *kerr.Error, count int) kfake.Fault {
	top := key == kmsg.EndTxn || key == kmsg.InitProducerID || key == kmsg.FindCoordinator
	return kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: count, TopLevel: top}
}

// Errors that are not transient end the write at once, with a hint.
func TestFinalErrors(t *testing.T) {
	for _, tc := range []struct {
		err  *kerr.Error
		key  kmsg.Key
		want string
	}{
		{kerr.TopicAuthorizationFailed, kmsg.Produce, "grant Read, Write, Create"},
		{kerr.TransactionalIDAuthorizationFailed, kmsg.AddPartitionsToTxn, "transactional ids"},
		{kerr.OutOfOrderSequenceNumber, kmsg.Produce, "Out Of Order"},
		{kerr.InvalidProducerIDMapping, kmsg.AddPartitionsToTxn, "has forgotten the producer"},
		{kerr.UnknownProducerID, kmsg.Produce, "has forgotten the producer"},
		{kerr.ProducerFenced, kmsg.EndTxn, sinks.ErrInvalidWriter.Error()},
		{kerr.InvalidProducerEpoch, kmsg.Produce, sinks.ErrInvalidWriter.Error()},
	} {
		eachProtocol(t, tc.err.Message, func(t *testing.T, c *kfake.Cluster, key func(kmsg.Key) kmsg.Key) {
			cfg := newestConfig(t, c.ListenAddrs())
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			mustWrite(t, log, lives(1, 3, 2))
			c.Fault(fault(key(tc.key), tc.err, -1))
			_, err := log.Write(servers.Context(t), lives(2, 3, 2))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Write = %v, want %q", err, tc.want)
			}
			if fenced := strings.Contains(tc.want, "fenced"); errors.Is(err, sinks.ErrInvalidWriter) != fenced {
				t.Errorf("errors.Is(%v, ErrInvalidWriter) is %v", err, !fenced)
			}
			if _, err := log.Write(servers.Context(t), lives(2, 3, 2)); err == nil {
				t.Error("the log takes writes after a failure")
			}
		})
	}
}

// If the broker itself has aborted a transaction, or has forgotten a producer, a commit gets the same answer. By protocol 2 the
// producer's epoch was raised in the former case.
func TestACommitThatComesTooLate(t *testing.T) {
	eachProtocol(t, "a commit", func(t *testing.T, c *kfake.Cluster, key func(kmsg.Key) kmsg.Key) {
		log, _ := openLog(t, newSink(t, newestConfig(t, c.ListenAddrs())), 0, 1, sinks.Durable{})
		mustWrite(t, log, lives(1, 3, 2))
		c.Fault(fault(kmsg.EndTxn, kerr.InvalidTxnState, -1))
		_, err := log.Write(servers.Context(t), lives(2, 3, 2))
		second := key(kmsg.AddPartitionsToTxn) == kmsg.Produce
		want := map[bool]string{true: "KUBECDC_KAFKA_TRANSACTION_TIMEOUT", false: "has forgotten the producer"}[second]
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, sinks.ErrInvalidWriter) != second {
			t.Errorf("Write = %v, want %q", err, want)
		}
	})
}

// Without the right to read a topic's settings, the limit is learned from refused record batches.
func TestLimitIsLearned(t *testing.T) {
	c := fakeCluster(t)
	cfg := newestConfig(t, c.ListenAddrs())
	cfg.Compression = "none"
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	for _, topic := range []string{".pods", ".dead-letter"} {
		mustDo(t, c.CreateTopic(cfg.TopicPrefix+topic, 2, map[string]string{"max.message.bytes": "30000"}))
	}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	b := podBatch(100)
	b.Seq = 1
	b.Changes = append(b.Changes, huge("big", 5000, 100_000))
	mustWrite(t, log, b)
	r := newReader(t, cfg.Brokers)
	records := r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods")
	wantOnce(t, records, b)
	letters := deadLetters(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".dead-letter"))
	if len(letters) != 1 {
		t.Errorf("%d dead letters, want 1", len(letters))
	}
	_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
	wantBodies(t, recovered, b, records)
}

// The leader of a new topic may not know yet that it leads. A write does not wait until the topic can be read, and does not read
// the cluster's metadata again and again.
func TestNewTopicsLeaderDoesNotLeadYet(t *testing.T) {
	c := fakeCluster(t)
	cfg := newConfig(t, c.ListenAddrs()) // by protocol 2 it may also read back its last record
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	fetches := c.Fault(fault(kmsg.Fetch, kerr.NotLeaderForPartition, -1))
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	b := lives(1, 3, 2)
	_, err := log.Write(ctx, b)
	mustDo(t, err)
	if fetches.Hits() != 1 {
		t.Errorf("%d fetches were answered with the error, want 1", fetches.Hits())
	}
	fetches.Remove()
	wantOnce(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), b)
}

// A user that may not create topics gets the error at once.
func TestTopicsMayNotBeCreated(t *testing.T) {
	c := fakeCluster(t)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	_, err := newSink(t, newestConfig(t, c.ListenAddrs())).Open(servers.Context(t), 0, 1, sinks.Durable{})
	if err == nil || !strings.Contains(err.Error(), ".control") || !strings.Contains(err.Error(), "Create") {
		t.Errorf("Open = %v, want an error that names the topic and the right that is missing", err)
	}
	var e *kafka.Error
	if !errors.As(err, &e) {
		t.Errorf("%T is not a *kafka.Error", err)
	}
}

func TestCheckRefusesOldBrokers(t *testing.T) {
	old, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V2_7_0()))
	mustDo(t, err)
	t.Cleanup(old.Close)
	_, err = newSink(t, newConfig(t, old.ListenAddrs())).Check(servers.Context(t), nil)
	if err == nil || !strings.Contains(err.Error(), "older than Kafka 2.8") {
		t.Errorf("Check = %v", err)
	}
}
