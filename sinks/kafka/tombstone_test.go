package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// tombstoneOps are the ops in the headers of tombstones: now, and in logs of older versions.
var tombstoneOps = []string{change.OpTombstone, "d"}

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
			mustDo(t, r.client.ProduceSync(servers.Context(t), tombstone).FirstErr())
		}
	}
	ops := map[string]string{}
	mustDo(t, openReader(t, cfg).Changes(servers.Context(t), sinks.Query{}, func(l *sinks.Logged) error {
		ops[l.Name] += l.Op.String()
		return nil
	}))
	if ops["a"] != "cd" || ops["b"] != "cd" || ops["c"] != "c" {
		t.Errorf("a reader finds %v", ops)
	}
	_, objects := fold(t, cfg, 2)
	wantVersions(t, objects, "c@12")
}
