package kafka_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// The control topic is created with one partition. If it has more, each slot uses one of them.
func TestTheControlTopicHasOnePartition(t *testing.T) {
	for made, want := range map[int][]int32{0: {0}, 6: {0, 1}} {
		cfg := newConfig(t, servers.SharedKafka(t).Brokers)
		cfg.Partitions = 6
		r := newReader(t, cfg.Brokers)
		if made > 0 {
			_, err := r.admin.CreateTopic(servers.Context(t), int32(made), 1, nil, cfg.TopicPrefix+".control")
			mustDo(t, err)
		}
		for range 2 {
			for slot := range 2 {
				log, recovered := openLog(t, newSink(t, cfg), slot, time.Now().UnixNano(), sinks.Durable{})
				if len(recovered) == 0 {
					b := lives(1, 3, 2)
					b.Slot = slot
					mustWrite(t, log, b)
				} else if len(recovered) != 1 || recovered[0].Batch.Slot != slot {
					t.Errorf("slot %d recovers %d batches", slot, len(recovered))
				}
			}
		}
		if used := slices.Sorted(maps.Keys(r.committed(t, cfg.Brokers, cfg.TopicPrefix+".control"))); !slices.Equal(used, want) {
			t.Errorf("of %d partitions those used are %v, not %v", max(made, 1), used, want)
		}
		if n := len(r.settled(t, cfg.TopicPrefix+".pods")[cfg.TopicPrefix+".pods"]); n != 6 {
			t.Errorf("a data topic has %d partitions", n)
		}
	}
}

// Brokers that have just started do not know a topic for a while. It counts neither as lost nor as new.
func TestTopicsThatBrokersDoNotKnowYetAreNotLost(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	cfg, h := newConfig(t, c.ListenAddrs()), &heard{stuck: make(chan error, 100)}
	var mu sync.Mutex
	made := map[string]int{}
	cfg.Observer = h
	cfg.Pin = func(_ context.Context, topic string, found int, created bool) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if created {
			made[topic]++
		}
		return found, nil
	}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	first := lives(1, 3, 2)
	known := mustWrite(t, log, first)
	blind := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: cfg.TopicPrefix + ".pods", Err: kerr.UnknownTopicOrPartition, Count: -1})
	sighted := time.AfterFunc(8*time.Second, blind.Remove) // longer than a missing topic is searched
	defer sighted.Stop()
	next, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{Seq: 1, Offsets: known})
	if len(recovered) > 0 {
		t.Errorf("recovered %d batches", len(recovered))
	}
	mustWrite(t, next, lives(2, 3, 2))
	for topic, n := range made {
		if n != 1 {
			t.Errorf("%s was taken for new %d times", topic, n)
		}
	}
	if len(h.stuck) == 0 {
		t.Error("nothing was said of what is waited for")
	}
}

// A leader has records that it does not return, since they wait for an absent replica. They do not count as lost.
func TestRecordsThatAreNotReplicatedYetAreNotLost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("this test waits for half a minute: make test runs it")
	}
	c := fakeCluster(t)
	cfg := newConfig(t, c.ListenAddrs())
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, lives(1, 3, 2))
	away := time.Now().Add(33 * time.Second)
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if time.Now().After(away) {
			return nil, nil, false
		}
		c.KeepControl()
		return hidden(req.(*kmsg.FetchRequest)), nil, true
	})
	_, recovered := openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{})
	if len(recovered) != 1 || time.Now().Before(away) {
		t.Errorf("recovered %d batches", len(recovered))
	}
}

// hidden returns the answer to a fetch of records that are not replicated yet.
func hidden(req *kmsg.FetchRequest) kmsg.Response {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition = rp.Partition
			t.Partitions = append(t.Partitions, p)
		}
		res.Topics = append(res.Topics, t)
	}
	return res
}

// The brokers fail while a topic's limit is read. Records that fit the topic do not become dead letters.
func TestAnOutageDoesNotLowerTheLimit(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	cfg := newConfig(t, c.ListenAddrs())
	cfg.Compression = "none"
	mustDo(t, c.CreateTopic(cfg.TopicPrefix+".pods", 2, map[string]string{"max.message.bytes": "3000000", "retention.ms": "-1"}))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.NetworkException, Count: 5})
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	b := lives(1, 3, 2)
	b.Changes = append(b.Changes, huge("big", 5000, 2_000_000))
	mustWrite(t, log, b)
	r := newReader(t, cfg.Brokers)
	if topics, err := r.admin.ListTopics(servers.Context(t), cfg.TopicPrefix+".dead-letter"); err != nil || topics.Has(cfg.TopicPrefix+".dead-letter") {
		t.Errorf("there are dead letters: %v", err)
	}
	wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), b)
}
