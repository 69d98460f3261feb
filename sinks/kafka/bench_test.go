package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// BenchmarkWrite measures the latency of one batch (ns/op), and with large batches the throughput.
func BenchmarkWrite(b *testing.B) {
	broker := servers.SharedKafka(b)
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		for _, changes := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", delivery, changes), func(b *testing.B) {
				cfg := newConfig(b, broker.Brokers)
				cfg.Delivery = delivery
				benchmarkWrite(b, cfg, podBatch(changes))
			})
		}
	}
}

// BenchmarkWriteStreams writes batches with changes of many streams, and so to many topics and partitions.
func BenchmarkWriteStreams(b *testing.B) {
	broker := servers.SharedKafka(b)
	for _, streams := range []int{1, 200} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			cfg := newConfig(b, broker.Brokers)
			cfg.Partitions = 6
			batch := podBatch(1000)
			for i := range streams {
				s := change.NewStream(change.Resource{Version: "v1", Plural: fmt.Sprintf("things%03d", i), Kind: "Thing", Namespaced: true}, "", "", "")
				for n := i; n < len(batch.Changes); n += streams {
					batch.Changes[n].Stream = s
				}
				batch.Positions = append(batch.Positions, change.Position{Stream: s.ID(), ResourceVersion: "1000", Time: time.Now()})
			}
			benchmarkWrite(b, cfg, batch)
		})
	}
}

func BenchmarkCompression(b *testing.B) {
	broker := servers.SharedKafka(b)
	for _, compression := range []string{"none", "snappy", "lz4", "zstd", "gzip"} {
		b.Run(compression, func(b *testing.B) {
			cfg := newConfig(b, broker.Brokers)
			cfg.Compression = compression
			benchmarkWrite(b, cfg, podBatch(1000))
		})
	}
}

func benchmarkWrite(b *testing.B, cfg kafka.Config, batch *change.Batch) {
	sink := newSink(b, cfg)
	defer sink.Close()
	opened, err := sink.Open(b.Context(), 0, 1, sinks.Durable{})
	mustDo(b, err)
	changes := len(batch.Changes)
	write := func() {
		batch.Seq++
		if _, err := opened.Log.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	write()
	var bytes int64
	for _, c := range batch.Changes {
		bytes += int64(len(c.After))
	}
	b.SetBytes(bytes)
	b.ReportAllocs()
	start, cpu := time.Now(), cpuTime()
	for b.Loop() {
		write()
	}
	b.ReportMetric(float64(changes*b.N)/(cpuTime()-cpu).Seconds(), "changes/cpu-s")
	b.ReportMetric(float64(changes*b.N)/time.Since(start).Seconds(), "changes/s")
}

// cpuTime returns the CPU time of this process, without the broker's.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var podStream = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

// podBatch returns a batch of pods of about 4 KB, which compress like real ones.
func podBatch(n int) *change.Batch {
	random := rand.New(rand.NewPCG(1, 2))
	b := &change.Batch{Epoch: 1}
	for i := range n {
		b.Changes = append(b.Changes, pod(random, fmt.Sprint("web-", i), i+1))
	}
	return b
}

func pod(random *rand.Rand, name string, rv int) change.Change {
	uid := fmt.Sprintf("%08x-%04x-4%03x-9%03x-%012x", random.Uint32(), random.Uint32()>>16, random.Uint32()>>20, random.Uint32()>>20, random.Uint64()>>16)
	c := change.Change{Stream: podStream, Op: change.Create, Namespace: "default", Name: name, UID: uid,
		ResourceVersion: change.ResourceVersion(fmt.Sprint(rv)), Time: time.Now()}
	body := fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d","labels":{"app":"web","pod-template-hash":"%x"},"managedFields":[`, name, uid, rv, random.Uint32())
	for range 7 {
		body = fmt.Appendf(body, `{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:%02dZ","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%016x\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web-%x\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{}}}}}},`, random.IntN(60), random.Uint64(), random.Uint32())
	}
	c.After = append(body[:len(body)-1], `]},"spec":{},"status":{"phase":"Running"}}`...)
	return c
}
