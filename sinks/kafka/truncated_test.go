package kafka_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// A broker has lost the last transaction of a partition, as after an unclean election. The transaction that the next write
// begins there is aborted, and its marker gets the offset of a lost record: the partition is as long as the checkpoint says.
// The loss is told all the same, whether the process lives on or was killed in its write.
func TestALostRecordIsNotHiddenByAMarker(t *testing.T) {
	t.Parallel()
	broker := startKafka(t, servers.KafkaOptions{})
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			cfg := newConfig(t, broker.Brokers)
			cfg.Partitions = 1
			o := &owner{cfg: cfg}
			mustDo(t, o.open(t))
			o.write(t, 9)
			o.write(t, 1, firstOnly)
			broker.Kill()
			cutLast(t, broker, cfg.TopicPrefix+".pods-0", 2) // the record, and the marker of its transaction
			mustDo(t, broker.Start(t.Context()))
			write := o.log.Write
			if killed {
				write = func(ctx context.Context, b *change.Batch) (change.Offsets, error) {
					return nil, kafka.WriteUnended(ctx, o.log, b)
				}
			}
			_, err := write(t.Context(), o.next(1, firstOnly))
			if err == nil {
				t.Fatal("the broker does not notice that the record is missing")
			}
			t.Log(err)
			if killed {
				mustDo(t, o.sink.Close())
				o.sink = newSink(t, cfg)
			}
			opened, err := o.sink.Open(t.Context(), 0, 2, o.from)
			mustDo(t, err)
			ends, err := kadmOf(t, broker.Brokers).ListEndOffsets(t.Context(), cfg.TopicPrefix+".pods")
			mustDo(t, err)
			if end, _ := ends.Lookup(cfg.TopicPrefix+".pods", 0); end.Offset < o.from.Offsets[end.Topic][0] {
				t.Errorf("the partition ends at %d, which is before the checkpoint's %v: nothing is hidden", end.Offset, o.from.Offsets)
			}
			lost := opened.Lost
			if lost == nil || lost.Gone == nil || !lost.Gone(change.Resource{Version: "v1", Plural: "pods"}) {
				t.Fatalf("the loss is not told: %v", lost)
			}
			o.log, o.epoch = opened.Log, 2
			o.record(t, lost)
			if opened, err = o.sink.Open(t.Context(), 0, 3, o.from); err != nil || opened.Lost != nil {
				t.Errorf("after it was recorded: %v, %v", opened.Lost, err)
			}
		})
	}
}

// firstOnly leaves one change in a batch.
func firstOnly(b *change.Batch) { b.Changes = b.Changes[:1] }

// cutLast cuts the last record batches off a partition of a broker that does not run.
func cutLast(t *testing.T, k *servers.Kafka, partition string, n int) {
	t.Helper()
	file := filepath.Join(k.Dir, "data", partition, fmt.Sprintf("%020d.log", 0))
	text, err := os.ReadFile(file)
	mustDo(t, err)
	var begins []int
	for at := 0; at+12 <= len(text); at += 12 + int(binary.BigEndian.Uint32(text[at+8:])) {
		begins = append(begins, at)
	}
	mustDo(t, os.Truncate(file, int64(begins[len(begins)-n])))
}
