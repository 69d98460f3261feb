package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// A broker has lost the last transaction of a partition, as after an unclean election. The transaction of the next write there is
// aborted, and its marker gets the offset of a lost record. So the partition is as long as the checkpoint says. The loss is
// reported anyway, whether the process lives on or was killed in its write.
func TestALostRecordIsNotHiddenByAMarker(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			cfg := newConfig(t, broker.Brokers)
			cfg.Partitions = 1
			o := &owner{cfg: cfg}
			mustDo(t, o.open(t))
			o.write(t, 9)
			o.write(t, 1, firstOnly)
			cutOff(t, broker, cfg.TopicPrefix+".pods", 1)
			write := o.log.Write
			if killed {
				write = func(ctx context.Context, b *change.Batch) (change.Offsets, error) {
					return nil, kafka.WriteUnended(ctx, o.log, b)
				}
			}
			_, err := write(servers.Context(t), o.next(1, firstOnly))
			if err == nil {
				t.Fatal("the broker does not notice that the record is missing")
			}
			t.Log(err)
			if killed {
				mustDo(t, o.sink.Close())
				o.sink = newSink(t, cfg)
			}
			opened, err := o.sink.Open(servers.Context(t), 0, 2, o.from)
			mustDo(t, err)
			ends, err := kadmOf(t, broker.Brokers).ListEndOffsets(servers.Context(t), cfg.TopicPrefix+".pods")
			mustDo(t, err)
			if end, _ := ends.Lookup(cfg.TopicPrefix+".pods", 0); end.Offset < o.from.Offsets[end.Topic][0] {
				t.Errorf("the partition ends at %d, which is before the checkpoint's %v: nothing is hidden", end.Offset, o.from.Offsets)
			}
			lost := opened.Lost
			if lost == nil || lost.Gone == nil || !lost.Gone("pods") {
				t.Fatalf("the loss is not reported: %v", lost)
			}
			o.log, o.epoch = opened.Log, 2
			o.record(t, lost)
			if opened, err = o.sink.Open(servers.Context(t), 0, 3, o.from); err != nil || opened.Lost != nil {
				t.Errorf("after it was recorded: %v, %v", opened.Lost, err)
			}
		})
	}
}

// Without transactions, what was written after a loss can't be taken back. The broker accepts any first records of an owner in a
// partition, so the end is compared before.
func TestNothingIsWrittenBehindALoss(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	cfg := newConfig(t, broker.Brokers)
	cfg.Partitions, cfg.Delivery = 1, kafka.AtLeastOnce
	o := &owner{cfg: cfg}
	mustDo(t, o.open(t))
	o.write(t, 9, firstOnly)
	o.write(t, 1, firstOnly)
	mustDo(t, o.open(t))
	cutOff(t, broker, cfg.TopicPrefix+".pods", 1)
	if _, err := o.log.Write(servers.Context(t), o.next(1, firstOnly)); err == nil {
		t.Fatal("the loss is not noticed")
	}
	if got := newReader(t, broker.Brokers).committed(t, broker.Brokers, cfg.TopicPrefix+".pods")[0]; len(got) != 1 {
		t.Errorf("the topic has %d records: %v", len(got), got)
	}
}

// cutOff removes the last writes of a topic with one partition, like an unclean election. All transactions are complete before.
// By protocol 2 a coordinator may never end one that it finds half ended at its start (KAFKA-19999).
func cutOff(t *testing.T, broker *servers.Kafka, topic string, writes int) {
	t.Helper()
	r := newReader(t, broker.Brokers)
	r.settled(t, topic)
	servers.Await(t, "the transactions to be complete", func() (bool, error) {
		open, err := r.admin.ListTransactions(servers.Context(t), nil, []string{"Ongoing", "PrepareCommit", "PrepareAbort"})
		return len(open) == 0, err
	})
	broker.Kill()
	if cut, err := broker.CutLast(topic+"-0", writes); cut != writes || err != nil {
		t.Fatalf("%d writes were cut off: %v", cut, err)
	}
	mustDo(t, broker.Start(servers.Context(t)))
}

// firstOnly leaves only the first change in a batch.
func firstOnly(b *change.Batch) { b.Changes = b.Changes[:1] }

// Another slot has filled the offsets of lost records. The loss is found, although the slot's last batches have no record there.
// It is also found in a batch that the checkpoint does not have yet.
func TestALostRecordIsNotHiddenByAnotherSlot(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			cfg := newConfig(t, broker.Brokers)
			cfg.Partitions, cfg.Delivery = 1, delivery
			o, other, dies := &owner{cfg: cfg}, &owner{cfg: cfg, slot: 1}, &owner{cfg: cfg, slot: 2}
			mustDo(t, o.open(t))
			mustDo(t, other.open(t))
			mustDo(t, dies.open(t))
			other.write(t, 9)
			dies.write(t, 1, firstOnly)
			for _, n := range []int{9, 1, 1, 0, 0} {
				o.write(t, n, func(b *change.Batch) { b.Changes = b.Changes[:min(n, 1)] })
			}
			_, err := dies.log.Write(servers.Context(t), dies.next(1, firstOnly))
			mustDo(t, err)
			mustDo(t, o.log.Close())
			cutOff(t, broker, cfg.TopicPrefix+".pods", 3)
			other.write(t, 9)
			o.record(t, o.wantLost(t, "pods"))
			mustDo(t, o.open(t))
			_ = dies.open(t)
			state, err := dies.log.(sinks.Content).State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return true }})
			if err != nil || state.Lost == nil || !state.Lost.Gone("pods") {
				t.Errorf("the loss of the last batch is not reported: %v, %v", state.Lost, err)
			}
			holeIn(t, cfg, "")
		})
	}
}

// Records are removed from the beginning of a topic, while the log is open or not. The next owner learns that the log has lost
// records of that topic, also if its checkpoint is lost, until it has recorded the loss. A start at which a topic is first
// written is no loss.
func TestRecordsAreRemovedFromTheBeginning(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	topic := cfg.TopicPrefix + ".pods"
	remove := func() { removeRecords(t, cfg.Brokers, topic) }
	lost := func() string {
		t.Helper()
		retained, err := openReader(t, cfg).Retained(servers.Context(t), []string{"pods"})
		mustDo(t, err)
		return retained["pods"].Lost
	}
	proof := func(b *change.Batch) {
		b.Controls = append(b.Controls, change.ProofControl("pods", "1", &change.Proof{}))
	}
	other := cfg
	other.Cluster, other.ClusterUID = "another", "another"
	foreign := &owner{cfg: other}
	mustDo(t, foreign.open(t))
	foreign.write(t, 9)
	remove()

	o := &owner{cfg: cfg}
	mustDo(t, o.open(t))
	o.write(t, 9, proof)
	mustDo(t, o.open(t))
	if why := lost(); why != "" {
		t.Errorf("nothing is lost yet: %s", why)
	}
	remove()
	if why := lost(); !strings.Contains(why, topic) {
		t.Errorf("a reader says %q", why)
	}
	b := o.next(1, proof)
	if _, err := o.log.Write(servers.Context(t), b); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("a write with a proof: %v", err)
	}
	o.wantLost(t, "pods")
	o.record(t, o.wantLost(t, "pods"))
	if why := lost(); why != "" {
		t.Errorf("the loss is recorded, and a reader says %q", why)
	}
	o.write(t, 9, proof)
	mustDo(t, o.open(t)) // nothing more is lost
	for _, recorded := range []bool{true, false} {
		if !recorded {
			remove()
		}
		opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 9+o.epoch, sinks.Durable{New: true})
		mustDo(t, err)
		state, err := opened.Content.State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return true }})
		if mustDo(t, err); (state.Lost == nil) != recorded {
			t.Errorf("recorded: %v; a lost checkpoint gets the losses %v", recorded, state.Lost)
		}
		o.epoch += 10
	}
	holeIn(t, cfg, "")
}
