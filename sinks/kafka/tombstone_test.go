package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/test/servers"
)

// tombstoneOps are the ops that tombstones have in their headers: now, and in logs of older versions.
var tombstoneOps = []string{change.OpTombstone, "d"}

// A tombstone repeats its delete. If compaction has removed that, it is the delete.
func TestADeleteIsReadBackOnce(t *testing.T) {
	record := func(op, uid, value string) consumer.Record {
		r := consumer.Record{Key: []byte(`{"cluster":"test","namespace":"default","name":"a"}`),
			Headers: map[string]string{"op": op, "uid": uid, "resourceVersion": "7", "stream": "pods"}}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	created, deleted := record("c", "2", `{"before":null,"after":{}}`), record("d", "1", `{"before":{},"after":null}`)
	for _, op := range tombstoneOps {
		tombstone := record(op, "1", "")
		for _, tc := range []struct {
			name    string
			records []consumer.Record
			want    string
		}{
			{"a delete and its tombstone", []consumer.Record{deleted, tombstone, created}, "dc"},
			{"a tombstone whose delete is gone", []consumer.Record{tombstone, created}, "dc"},
			{"a delete whose tombstone is gone", []consumer.Record{deleted, created}, "dc"},
			{"a tombstone of another object of the name", []consumer.Record{record("d", "2", `{}`), tombstone}, "dd"},
		} {
			changes, err := kafka.Decode(tc.records)
			got := ""
			for _, c := range changes {
				got += c.Op.String()
			}
			if err != nil || got != tc.want {
				t.Errorf("%s with the op %q: read back %q, %v; want %q", tc.name, op, got, err, tc.want)
			}
		}
	}
}

// Compaction can leave nothing of an object but its tombstone.
func TestATombstoneAloneDeletesItsObject(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10), created("b", 11), created("c", 12)}})
	r := newReader(t, cfg.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	topic, left := cfg.TopicPrefix+".pods", map[string]string{"a": tombstoneOps[0], "b": tombstoneOps[1]}
	for p, records := range r.committed(t, cfg.Brokers, topic) {
		for _, record := range records {
			_, _, name, err := change.DecodeKey(record.Key)
			mustDo(t, err)
			if left[name] == "" {
				continue
			}
			tombstone := &kgo.Record{Topic: topic, Partition: p, Key: record.Key}
			for _, h := range record.Headers {
				if h.Key == change.HeaderOp {
					h.Value = []byte(left[name])
				}
				tombstone.Headers = append(tombstone.Headers, h)
			}
			mustDo(t, r.client.ProduceSync(t.Context(), tombstone).FirstErr())
		}
	}
	ops := map[string]string{}
	mustDo(t, openReader(t, cfg).Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		ops[l.Name] += l.Op.String()
		return nil
	}))
	if ops["a"] != "cd" || ops["b"] != "cd" || ops["c"] != "c" {
		t.Errorf("a reader finds %v", ops)
	}
	_, objects := fold(t, cfg, 2)
	wantVersions(t, objects, "c@12")
}
