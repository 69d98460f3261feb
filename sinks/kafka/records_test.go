package kafka_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

func openLog(t *testing.T, s *kafka.Sink, slot int, epoch int64, from sinks.Durable) (sinks.Log, []sinks.Recovered) {
	t.Helper()
	opened, err := s.Open(servers.Context(t), slot, epoch, from)
	mustDo(t, err)
	t.Cleanup(func() { opened.Log.Close() })
	recovered, lost, err := sinktest.Tail(servers.Context(t), opened)
	if err != nil || lost != nil {
		t.Fatalf("lost %v, error %v", lost, err)
	}
	return opened.Log, recovered
}

func mustWrite(t *testing.T, log sinks.Log, b *change.Batch) change.Offsets {
	t.Helper()
	offsets, err := log.Write(servers.Context(t), b)
	mustDo(t, err)
	return offsets
}

// lives returns a batch in which objects are created, updated, deleted and created again.
func lives(seq uint64, objects, steps int) *change.Batch {
	random := rand.New(rand.NewPCG(seq, 2))
	b := &change.Batch{Epoch: 1, Seq: seq}
	for step := range steps {
		for i := range objects {
			c := pod(random, string(rune('a'+i%26))+"-pod", int(seq)*10000+step*objects+i)
			c.Namespace = string(rune('a' + i/26))
			switch step % 4 {
			case 1, 2:
				c.Op, c.Before = change.Update, c.After
			case 3:
				c.Op, c.Before, c.After = change.Delete, c.After, nil
			}
			b.Changes = append(b.Changes, c)
		}
	}
	return b
}

func TestConsumersSeeTheChangesOfAnObjectInOrder(t *testing.T) {
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Delivery = delivery
			s := newSink(t, cfg)
			defer s.Close()
			log, _ := openLog(t, s, 0, 1, sinks.Durable{})
			first, second := lives(1, 60, 9), lives(2, 60, 8)
			mustWrite(t, log, first)
			mustWrite(t, log, second)
			r := newReader(t, cfg.Brokers)
			records := r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods")
			wantOnce(t, records, first, second)
			wantJavaPartitions(t, records, cfg.Partitions)
		})
	}
}

func wantJavaPartitions(t *testing.T, records map[int32][]*kgo.Record, n int) {
	t.Helper()
	java := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for p, list := range records {
		for _, r := range list {
			if want := java.Partition(r, n); int(p) != want {
				t.Fatalf("key %s is on partition %d, Java's producer has it on %d", r.Key, p, want)
			}
		}
	}
}

func TestHeadersAndValueOfARecord(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Partitions = 1
	s := newSink(t, cfg)
	defer s.Close()
	log, _ := openLog(t, s, 5, 9, sinks.Durable{})
	c := pod(rand.New(rand.NewPCG(1, 1)), "web", 77)
	c.Op, c.Before, c.Inferred, c.Gap = change.Update, []byte(`{"old":1}`), true, "pods:5"
	mustWrite(t, log, &change.Batch{Slot: 5, Epoch: 9, Seq: 3, Changes: []change.Change{c},
		Controls:  []change.Control{{Type: change.ControlWatermark, Stream: "pods", ResourceVersion: "80"}},
		Positions: []change.Position{{Stream: "pods", ResourceVersion: "80"}}})
	r := newReader(t, cfg.Brokers)
	data := r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods")[0]
	if len(data) != 1 {
		t.Fatalf("%d records, want 1", len(data))
	}
	wantHeaders := map[string]string{"op": "u", "uid": c.UID, "resourceVersion": "77", "stream": "pods", "namespace": c.Namespace, "slot": "5",
		"epoch": "9", "batch": "3", "inferred": "true", "gap": "pods:5"}
	if got, want := asJSON(t, headers(data[0])), asJSON(t, wantHeaders); got != want {
		t.Errorf("headers %s\nwant %s", got, want)
	}
	v := parse(t, data[0])
	if string(v.After) != string(c.After) || string(v.Before) != `{"old":1}` || v.Op != "u" || v.Source["gap"] != "pods:5" {
		t.Errorf("value %s", data[0].Value)
	}
	wantControls(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".control")[0], cfg.TopicPrefix+".pods")
}

// wantControls demands that the control topic has the open record, then the batch's control records, with the batch record last.
func wantControls(t *testing.T, records []*kgo.Record, topic string) {
	t.Helper()
	var types []string
	var last change.Control
	for _, r := range records {
		last = change.Control{}
		mustDo(t, json.Unmarshal(r.Value, &last))
		types = append(types, string(last.Type))
		if h := headers(r); h["type"] != string(last.Type) || h["slot"] != "5" || h["epoch"] != "9" {
			t.Errorf("headers %v of control record %s", h, r.Value)
		}
	}
	if got := asJSON(t, types); got != `["open","watermark","batch"]` {
		t.Errorf("control records %s", got)
	}
	if last.Batch != 3 || last.Changes != 1 || last.Ranges[topic][0] != [2]int64{0, 0} || len(last.Positions) != 1 || last.Cluster != "test" {
		t.Errorf("batch record %+v", last)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	mustDo(t, err)
	return string(b)
}

func TestEveryCompressionIsReadable(t *testing.T) {
	for _, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Compression = compression
			s := newSink(t, cfg)
			defer s.Close()
			log, _ := openLog(t, s, 0, 1, sinks.Durable{})
			b := podBatch(2000) // more than one record batch
			b.Seq = 1
			mustWrite(t, log, b)
			wantOnce(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), b)
			_, recovered := openLog(t, s, 0, 2, sinks.Durable{})
			if len(recovered) != 1 || len(recovered[0].Batch.Changes) != 2000 {
				t.Errorf("recovered %d batches", len(recovered))
			}
		})
	}
}
