package kafka_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// fold reads the complete log, as for a lost checkpoint.
func fold(t *testing.T, cfg kafka.Config, epoch int64) (*sinks.State, map[string]change.Change) {
	t.Helper()
	sink := newSink(t, cfg)
	t.Cleanup(func() { _ = sink.Close() })
	opened, err := sink.Open(servers.Context(t), 0, epoch, sinks.Durable{New: true})
	mustDo(t, err)
	state, err := opened.Content.State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return true }, Bodies: true})
	mustDo(t, err)
	objects := map[string]change.Change{}
	_, err = state.Fold(servers.Context(t), func(c *change.Change) error {
		if delete(objects, c.Key()); c.Op != change.Delete {
			objects[c.Key()] = *c
		}
		return nil
	}, func(sinks.Progress) {})
	mustDo(t, err)
	return state, objects
}

func created(name string, version int) change.Change {
	c := podBatch(1).Changes[0]
	c.Op, c.Name, c.UID, c.ResourceVersion = change.Create, name, "uid-"+name, change.VersionOf(uint64(version))
	c.After = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":%q,"uid":"uid-%s","resourceVersion":"%d"}}`, name, c.Namespace, name, version)
	return c
}

func wantVersions(t *testing.T, objects map[string]change.Change, want ...string) {
	t.Helper()
	var got []string
	for _, c := range objects {
		got = append(got, c.Name+"@"+string(c.ResourceVersion))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the log has %v, want %v", got, want)
	}
}

// Records of an unfinished batch are skipped, with transactions and without.
func TestUnfinishedBatchesAreNotFolded(t *testing.T) {
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Delivery = delivery
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10), created("b", 11)},
				Positions: []change.Position{{Stream: "pods", ResourceVersion: "11"}}})
			unfinished := &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{created("a", 20), created("c", 21)}}
			mustDo(t, kafka.WriteDataOnly(servers.Context(t), log, unfinished))
			state, objects := fold(t, cfg, 2)
			if state.Seq != 1 {
				t.Errorf("the log is at batch %d, want 1", state.Seq)
			}
			wantVersions(t, objects, "a@10", "b@11")

			log, _ = openLog(t, newSink(t, cfg), 0, 3, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets})
			unfinished.Epoch = 3
			mustWrite(t, log, unfinished)
			_, objects = fold(t, cfg, 4)
			wantVersions(t, objects, "a@20", "b@11", "c@21")
		})
	}
}

// A record that was too large for its topic is folded as its stub.
func TestADeadLetterIsFoldedAsItsStub(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Compression = "none"
	cfg.MaxMessageBytes = 30_000
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10), huge("big", 5000, 100_000)}})
	_, objects := fold(t, cfg, 2)
	for _, c := range objects {
		if c.Name == "big" && (!strings.Contains(string(c.After), change.StubAnnotation) || len(c.After) > 1000) {
			t.Errorf("folded as %.300s", c.After)
		}
	}
	if len(objects) != 2 {
		t.Errorf("%d objects", len(objects))
	}
}

// Partitions were added, then the checkpoint was lost, which knew how many are used. Keys remain on their partitions.
func TestPartitionsAddedBeforeTheCheckpointWasLost(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	topic := cfg.TopicPrefix + ".pods"
	pinned := map[string]int{}
	cfg.Pin = func(_ context.Context, topic string, found int, created bool) (int, error) {
		if pinned[topic] == 0 || created {
			pinned[topic] = found
		}
		return pinned[topic], nil
	}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	first := &change.Batch{Epoch: 1, Seq: 1}
	for i := range 60 {
		first.Changes = append(first.Changes, created(fmt.Sprint("pod-", i), 10+i))
	}
	mustWrite(t, log, first)
	r := newReader(t, cfg.Brokers)
	_, err := r.admin.UpdatePartitions(servers.Context(t), 7, topic)
	mustDo(t, err)
	clear(pinned)
	state, objects := fold(t, cfg, 2)
	if len(objects) != 60 || pinned[topic] != 3 {
		t.Errorf("%d objects, spread over %d partitions; want 60 over 3", len(objects), pinned[topic])
	}
	log, _ = openLog(t, newSink(t, cfg), 0, 3, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets})
	second := &change.Batch{Epoch: 3, Seq: 2}
	for i := range 60 {
		second.Changes = append(second.Changes, created(fmt.Sprint("pod-", i), 100+i))
	}
	mustWrite(t, log, second)
	partitionOf := map[string]int32{}
	for p, records := range r.committed(t, cfg.Brokers, topic) {
		for _, record := range records {
			if old, ok := partitionOf[string(record.Key)]; ok && old != p {
				t.Errorf("%s is on partitions %d and %d", record.Key, old, p)
			}
			partitionOf[string(record.Key)] = p
		}
	}
	if partitions := slices.Compact(slices.Sorted(maps.Values(partitionOf))); len(partitions) != 3 {
		t.Errorf("records are on partitions %v", partitions)
	}
}

// A deleted topic is noticed even if the checkpoint is lost, too.
func TestATopicThatWasDeletedBeforeTheCheckpointWasLost(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)},
		Positions: []change.Position{{Stream: "pods", ResourceVersion: "10"}}})
	deleteTopic(t, newReader(t, cfg.Brokers), cfg.TopicPrefix+".pods")
	state, objects := fold(t, cfg, 2)
	if wantVersions(t, objects); state.Lost == nil || !state.Lost.Gone("pods") || state.Lost.Gone("nodes") {
		t.Errorf("the state is %+v, lost %+v", state, state.Lost)
	}
}

// A broker answers that a transaction has ended before all partitions have its marker. Another slot's records of that transaction
// are in the log, and in the state from which a lost checkpoint is rebuilt.
func TestTheStateHasWhatEndsWhileItIsRead(t *testing.T) {
	c := fakeCluster(t)
	cfg := newConfig(t, c.ListenAddrs())
	s := newSink(t, cfg)
	other, _ := openLog(t, s, 1, 1, sinks.Durable{})
	mustWrite(t, other, &change.Batch{Slot: 1, Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}})
	ending, asked, written := make(chan bool), make(chan bool), make(chan error, 1)
	var began, once sync.Once
	c.ControlKey(int16(kmsg.EndTxn), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if strings.HasSuffix(r.(*kmsg.EndTxnRequest).TransactionalID, "-slot-1") {
			began.Do(func() { close(ending) })
			c.SleepControl(func() { <-asked })
		}
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if r.(*kmsg.ListOffsetsRequest).IsolationLevel == 1 { // the stable ends
			once.Do(func() { close(asked) })
		}
		return nil, nil, false
	})
	t.Cleanup(func() { once.Do(func() { close(asked) }) })
	go func() {
		_, err := other.Write(servers.Context(t), &change.Batch{Slot: 1, Epoch: 1, Seq: 2, Changes: []change.Change{created("b", 11)}})
		written <- err
	}()
	<-ending
	_, objects := fold(t, cfg, 1)
	wantVersions(t, objects, "a@10", "b@11")
	mustDo(t, <-written)
}

// Partitions were added, and the checkpoint of two slots is lost. One slot has no key in the topic. Both go on with the former
// number, which is in the log. If its control records are gone, the keys of the other slot show it.
func TestPartitionsAddedBeforeASlotWithoutKeysIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, expired := range []bool{false, true} {
		cfg := newConfig(t, servers.SharedKafka(t).Brokers)
		topic := cfg.TopicPrefix + ".pods"
		pinned := map[string]int{}
		cfg.Pin = func(_ context.Context, topic string, found int, created bool) (int, error) {
			if pinned[topic] == 0 || created {
				pinned[topic] = found
			}
			return pinned[topic], nil
		}
		o := &owner{cfg: cfg}
		mustDo(t, o.open(t))
		o.write(t, 60)
		_, err := newReader(t, cfg.Brokers).admin.UpdatePartitions(servers.Context(t), 7, topic)
		mustDo(t, err)
		if expired {
			removeRecords(t, cfg.Brokers, cfg.TopicPrefix+".control")
		}
		clear(pinned)
		opened, err := newSink(t, cfg).Open(servers.Context(t), 1, 1, sinks.Durable{New: true})
		mustDo(t, err)
		state, err := opened.Content.State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return false }})
		mustDo(t, err)
		_, err = state.Fold(servers.Context(t), func(*change.Change) error { return nil }, func(sinks.Progress) {})
		if mustDo(t, err); pinned[topic] != 0 && pinned[topic] != 3 {
			t.Errorf("expired: %v; the slot without keys decides on %d partitions", expired, pinned[topic])
		}
		other := &owner{cfg: cfg, slot: 1, epoch: 1}
		mustDo(t, other.open(t))
		other.write(t, 9)
		if pinned[topic] != 3 {
			t.Errorf("expired: %v; the slot without keys spreads over %d partitions", expired, pinned[topic])
		}
	}
}
