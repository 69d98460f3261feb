package e2e

import (
	"bytes"
	"database/sql"
	be "encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A slot without streams shares the control topic with a slot that has written 20,000 small batches, each as a record batch.
// Somebody has also written a record of 88 KB there that unpacks to 700 MB. Both cost little memory, the large record is named, and
// the next start reads none of it again.
func othersLittle(t *testing.T, w *World) {
	prefix, path := w.Prefix+"-others", filepath.Join(t.TempDir(), "checkpoint.db")
	env := w.With("KUBECDC_KAFKA_TOPIC_PREFIX", prefix, "KUBECDC_SLOTS", "2", "KUBECDC_CHECKPOINT", "sqlite:"+path)
	writeFirst(t, env)
	topic := change.ControlTopic(prefix)
	last := batchRecord(t, w, prefix)
	produceAlone(t, w, last, 20_000)
	produceRaw(t, w, topic, unpacksTo(t, 700<<20))
	ends, err := admin(t, w).ListEndOffsets(t.Context(), topic)
	must(t, err)
	end, _ := ends.Lookup(topic, 0)

	e := StartExporter(t, "slots of which one has no stream", env).AwaitReady(t)
	Await(t, "both slots to be open", func() (bool, error) {
		return e.Metric(t, "kubecdc_slot_held", `slot="0"`)+e.Metric(t, "kubecdc_slot_held", `slot="1"`) == 2, nil
	})
	peak := e.PeakMemory(t)
	t.Logf("peak RSS %.1f MB", float64(peak)/1e6)
	if peak > 100e6 {
		t.Error("that is more than 100 MB")
	}
	e.awaitLogged(t, "too large to be read", "a record of 7340", fmt.Sprint("offset=", end.Offset-1))
	e.stop(t)
	for slot, offsets := range slotOffsets(t, path) {
		if next := offsets[topic][0]; next < end.Offset {
			t.Errorf("slot %d reads the control topic from offset %d again, which ended at %d before", slot, next, end.Offset)
		}
	}
}

// batchRecord returns a batch record of the log.
func batchRecord(t *testing.T, w *World, prefix string) *kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...), kgo.ConsumeTopics(change.ControlTopic(prefix)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	for {
		fetches := client.PollFetches(ctx)
		must(t, ctx.Err())
		for _, r := range fetches.Records() {
			if c := new(change.Control); json.Unmarshal(r.Value, c) == nil && c.Type == change.ControlBatch {
				return &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
			}
		}
	}
}

// produceAlone writes a record several times, each in its own record batch.
func produceAlone(t *testing.T, w *World, r *kgo.Record, times int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(max(1024, len(r.Value)+500))), kgo.MaxBufferedRecords(times))
	must(t, err)
	defer client.Close()
	value := bytes.Clone(r.Value)
	value = append(value, bytes.Repeat([]byte(" "), 500)...) // so that two records don't fit into one batch
	records := make([]*kgo.Record, times)
	for i := range records {
		records[i] = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: value}
	}
	must(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// unpacksTo returns a record batch with one record of that many zeros, which zstd packs to a hundred KB.
func unpacksTo(t *testing.T, size int) []byte {
	t.Helper()
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(1<<20))
	must(t, err)
	head := append(be.AppendVarint(nil, int64(size)+8), 0, 0, 0, 1) // attributes, time, offset, no key
	_, err = z.Write(be.AppendVarint(head, int64(size)))
	must(t, err)
	for zeros := make([]byte, 1<<20); size > 0; size -= len(zeros) {
		_, err = z.Write(zeros)
		must(t, err)
	}
	_, err = z.Write([]byte{0}) // no headers
	must(t, err)
	must(t, z.Close())
	return recordBatch(4, packed.Bytes())
}

// recordBatch returns a record batch of one record, with its codec.
func recordBatch(codec uint16, records []byte) []byte {
	b := make([]byte, 61)
	be.BigEndian.PutUint32(b[8:], uint32(49+len(records)))
	b[16] = 2
	be.BigEndian.PutUint16(b[21:], codec)
	now := uint64(time.Now().UnixMilli())
	be.BigEndian.PutUint64(b[27:], now)
	be.BigEndian.PutUint64(b[35:], now)
	be.BigEndian.PutUint64(b[43:], ^uint64(0)) // no producer
	be.BigEndian.PutUint16(b[51:], ^uint16(0))
	be.BigEndian.PutUint32(b[53:], ^uint32(0))
	be.BigEndian.PutUint32(b[57:], 1)
	b = append(b, records...)
	be.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// produceRaw writes a record batch to the topic's first partition.
func produceRaw(t *testing.T, w *World, topic string, batch []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...), kgo.MaxVersions(kversion.V2_8_0()))
	must(t, err)
	defer client.Close()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.Partitions = topic, append(to.Partitions, partition)
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = -1, 30_000, append(request.Topics, to)
	answer, err := client.SeedBrokers()[0].Request(t.Context(), request)
	must(t, err)
	must(t, kerr.ErrorForCode(answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
}

// slotOffsets returns the offsets of each slot in a checkpoint.
func slotOffsets(t *testing.T, path string) map[int]change.Offsets {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `select slot, offsets from slots`)
	must(t, err)
	defer rows.Close()
	all := map[int]change.Offsets{}
	for rows.Next() {
		var slot int
		var raw []byte
		must(t, rows.Scan(&slot, &raw))
		offsets := change.Offsets{}
		must(t, json.Unmarshal(raw, &offsets))
		all[slot] = offsets
	}
	must(t, rows.Err())
	if len(all) != 2 {
		t.Errorf("the checkpoint has %d slots", len(all))
	}
	return all
}
