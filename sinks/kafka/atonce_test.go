package kafka_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/sinks"
)

// A batch takes one round of Produce, including the batch record. If another slot writes to the same partitions, the transaction
// is aborted and the batch is written again. Each record is in the log once, and the batch records have the right offsets.
func TestABatchIsWrittenAtOnce(t *testing.T) {
	eachProtocol(t, "one round", func(t *testing.T, c *kfake.Cluster, _ func(kmsg.Key) kmsg.Key) {
		var produced, aborted atomic.Int32
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			produced.Add(1)
			return nil, nil, false
		})
		c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if !req.(*kmsg.EndTxnRequest).Commit {
				aborted.Add(1)
			}
			return nil, nil, false
		})
		cfg := newConfig(t, c.ListenAddrs())
		for _, topic := range []string{".pods", ".control"} {
			mustDo(t, c.CreateTopic(cfg.TopicPrefix+topic, int32(cfg.Partitions), map[string]string{"retention.ms": "-1"}))
			for p := range int32(cfg.Partitions) {
				mustDo(t, c.MoveTopicPartition(cfg.TopicPrefix+topic, p, 0))
			}
		}
		o, other := &owner{cfg: cfg}, &owner{cfg: cfg, slot: 1}
		mustDo(t, o.open(t))
		mustDo(t, other.open(t))
		o.write(t, 9) // the offsets that come first are not known
		rounds := produced.Load()
		for range 5 {
			o.write(t, 9)
		}
		if got := produced.Load() - rounds; got != 5 || aborted.Load() != 0 {
			t.Errorf("5 batches took %d Produce requests, and %d transactions were aborted", got, aborted.Load())
		}
		other.write(t, 9)
		o.write(t, 9)
		if aborted.Load() != 1 {
			t.Errorf("%d transactions were aborted, want the one whose offsets another slot has taken", aborted.Load())
		}
		other.write(t, 9)
		o.write(t, 9)
		r := newReader(t, cfg.Brokers)
		wantOnce(t, r.committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), append(o.batches, other.batches...)...)
		_, recovered := openLog(t, newSink(t, cfg), 0, 9, sinks.Durable{})
		for i, b := range recovered {
			if len(b.Batch.Changes) != len(o.batches[i].Changes) {
				t.Errorf("of batch %d %d changes are read back", i+1, len(b.Batch.Changes))
			}
		}
		if len(recovered) != len(o.batches) {
			t.Errorf("%d batches are read back, want %d", len(recovered), len(o.batches))
		}
	})
}
