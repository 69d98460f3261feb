package kafka_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/require"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// A process that dies in a transaction leaves no record that read_committed consumers or the next owner see. A process that was
// only suspended can't commit the transaction after a newer owner has come. The newer owner's records are in the log once.
func TestKilledInATransaction(t *testing.T) {
	for name, delivery := range inTransactions {
		for step, die := range map[string]func(*testing.T, sinks.Log) (wakes func() error){
			"before the control record": func(t *testing.T, log sinks.Log) func() error {
				mustDo(t, kafka.WriteDataOnly(servers.Context(t), log, lives(2, 10, 4)))
				return nil
			},
			"before the commit": func(t *testing.T, log sinks.Log) func() error {
				mustDo(t, kafka.WriteWithoutEnd(servers.Context(t), log, lives(2, 10, 4)))
				return nil
			},
			"suspended before the commit": func(t *testing.T, log sinks.Log) func() error {
				mustDo(t, kafka.WriteUnended(servers.Context(t), log, lives(2, 10, 4)))
				return func() error { return kafka.Publish(servers.Context(t), log) }
			},
		} {
			t.Run(name+", "+step, func(t *testing.T) {
				killedInATransaction(t, delivery(newConfig(t, servers.SharedKafka(t).Brokers)), die)
			})
		}
	}
}

func killedInATransaction(t *testing.T, cfg kafka.Config, die func(*testing.T, sinks.Log) func() error) {
	first := newSink(t, cfg)
	defer first.Close()
	log, _ := openLog(t, first, 0, 1, sinks.Durable{})
	one, two := lives(1, 10, 4), lives(2, 10, 4)
	known := mustWrite(t, log, one)
	wakes := die(t, log)

	second := newSink(t, cfg)
	defer second.Close()
	log, recovered := openLog(t, second, 0, 2, sinks.Durable{Seq: 1, Offsets: known})
	if len(recovered) != 0 {
		t.Errorf("recovered %d batches that were never committed", len(recovered))
	}
	wantFenced(t, wakes)
	r := newReader(t, cfg.Brokers)
	wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), one)
	mustWrite(t, log, two)
	wantFenced(t, wakes)
	wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), one, two)
	_, recovered = openLog(t, newSink(t, cfg), 0, 3, sinks.Durable{Seq: 1, Offsets: known})
	if len(recovered) != 1 || len(recovered[0].Batch.Changes) != len(two.Changes) {
		t.Errorf("recovered %d batches, want the one that was committed", len(recovered))
	}
}

// wantFenced resumes a former owner that was only suspended, and demands that it is fenced.
func wantFenced(t *testing.T, wakes func() error) {
	t.Helper()
	if wakes == nil {
		return
	}
	if err := wakes(); !errors.Is(err, sinks.ErrInvalidWriter) {
		t.Errorf("an owner that wakes up before its commit gets %v", err)
	}
}

var mustDo = require.NoError

// Without transactions consumers see the records of an unfinished batch, and the next owner writes the complete batch again.
func TestKilledAtLeastOnce(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Delivery = kafka.AtLeastOnce
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	known := mustWrite(t, log, lives(1, 10, 4))
	mustDo(t, kafka.WriteDataOnly(servers.Context(t), log, lives(2, 10, 4)))

	log, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{Seq: 1, Offsets: known})
	if len(recovered) != 0 {
		t.Errorf("recovered %d batches that were never finished", len(recovered))
	}
	two := lives(2, 10, 4)
	two.Epoch = 2
	mustWrite(t, log, two)
	_, recovered = openLog(t, newSink(t, cfg), 0, 3, sinks.Durable{Seq: 1, Offsets: known})
	if len(recovered) != 1 || len(recovered[0].Batch.Changes) != len(two.Changes) {
		t.Errorf("recovered %d batches, want the one that was finished", len(recovered))
	}
}

// Another slot's open transaction on the same partitions delays read_committed consumers, but not the recovery of this slot.
func TestRecoveryDoesNotWaitForOthers(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Partitions = 1
	hanging, _ := openLog(t, newSink(t, cfg), 1, 1, sinks.Durable{})
	mustDo(t, kafka.WriteWithoutEnd(servers.Context(t), hanging, lives(1, 10, 4)))
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, lives(1, 10, 4))
	_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
	if len(recovered) != 1 || len(recovered[0].Batch.Changes) != 40 {
		t.Errorf("recovered %d batches, want 1", len(recovered))
	}
}

func TestLostTail(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, kafka.Config, *reader){
		"the data topic was deleted": func(t *testing.T, cfg kafka.Config, r *reader) {
			deleteTopic(t, r, cfg.TopicPrefix+".pods")
		},
		"the control topic was deleted": func(t *testing.T, cfg kafka.Config, r *reader) {
			deleteTopic(t, r, cfg.TopicPrefix+".control")
		},
		"the control topic was recreated and has grown": func(t *testing.T, cfg kafka.Config, r *reader) {
			deleteTopic(t, r, cfg.TopicPrefix+".control")
			log, _ := openLog(t, newSink(t, cfg), 64, 1, sinks.Durable{})
			for seq := range uint64(20) {
				b := lives(seq+1, 1, 1)
				b.Slot = 64
				mustWrite(t, log, b)
			}
		},
		"records were deleted": func(t *testing.T, cfg kafka.Config, r *reader) {
			removeRecords(t, cfg.Brokers, cfg.TopicPrefix+".pods")
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Partitions = 1
			r := newReader(t, cfg.Brokers)
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			known := mustWrite(t, log, lives(1, 10, 4))
			mustWrite(t, log, lives(2, 10, 4))
			lose(t, cfg, r)
			opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 2, sinks.Durable{Seq: 1, Offsets: known})
			mustDo(t, err)
			recovered, lost, err := sinktest.Tail(servers.Context(t), opened)
			if err != nil || lost == nil || lost.TailRead || recovered != nil {
				t.Fatalf("%d recovered, lost %+v, error %v", len(recovered), lost, err)
			}
			b := lives(2, 10, 4)
			b.Epoch = 2
			mustWrite(t, opened.Log, b) // it can be written to
		})
	}
}

// Several batches are read together, and one of them is gone. The batches before it are recovered.
func TestTheTailIsReadUpToTheFirstLostBatch(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	known := mustWrite(t, log, lives(1, 10, 4))
	for seq := uint64(2); seq <= 5; seq++ {
		b := lives(seq, 10, 4)
		if seq == 4 {
			node := created("a", 10)
			node.Stream, node.Namespace = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", ""), ""
			b.Changes = []change.Change{node}
		}
		mustWrite(t, log, b)
	}
	deleteTopic(t, newReader(t, cfg.Brokers), cfg.TopicPrefix+".nodes")
	opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 2, sinks.Durable{Seq: 1, Offsets: known})
	mustDo(t, err)
	recovered, lost, err := sinktest.Tail(servers.Context(t), opened)
	if err != nil || lost == nil || lost.TailRead || !strings.Contains(lost.Reason, cfg.TopicPrefix+".nodes") {
		t.Errorf("lost %+v, error %v", lost, err)
	}
	if len(recovered) != 2 || recovered[1].Batch.Seq != 3 || len(recovered[1].Batch.Changes) != 40 {
		t.Errorf("%d batches are recovered, want 2 and 3", len(recovered))
	}
}

func deleteTopic(t *testing.T, r *reader, topic string) {
	t.Helper()
	_, err := r.admin.DeleteTopic(servers.Context(t), topic)
	mustDo(t, err)
	for listed := true; listed; time.Sleep(20 * time.Millisecond) { // until it is not listed any more
		topics, err := r.admin.ListTopics(servers.Context(t))
		mustDo(t, err)
		listed = topics.Has(topic)
	}
}
