package kafka_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

func openReader(t testing.TB, cfg kafka.Config) *kafka.Reader {
	t.Helper()
	r, err := kafka.OpenReader(servers.Context(t), cfg)
	mustDo(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// versionsOf lists what a query selects.
func versionsOf(t *testing.T, r sinks.Reader, q sinks.Query) (got []string) {
	t.Helper()
	mustDo(t, r.Changes(servers.Context(t), q, func(l *sinks.Logged) error {
		got = append(got, l.Name+"@"+string(l.ResourceVersion))
		return nil
	}))
	slices.Sort(got)
	return got
}

// Records of an unfinished batch are not read, with transactions and without.
func TestUnfinishedBatchesAreNotRead(t *testing.T) {
	for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
		t.Run(delivery, func(t *testing.T) {
			cfg := newConfig(t, servers.SharedKafka(t).Brokers)
			cfg.Delivery = delivery
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10), created("b", 11)}})
			unfinished := &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{created("a", 20), created("c", 21)}}
			mustDo(t, kafka.WriteDataOnly(servers.Context(t), log, unfinished))
			r := openReader(t, cfg)
			if got := versionsOf(t, r, sinks.Query{}); !slices.Equal(got, []string{"a@10", "b@11"}) {
				t.Errorf("the log has %v", got)
			}
			cut, err := r.CutAt(servers.Context(t), time.Time{})
			mustDo(t, err)

			log, opened := openLog(t, newSink(t, cfg), 0, 3, sinks.Durable{})
			unfinished.Epoch, unfinished.Seq = 3, 2
			mustWrite(t, log, unfinished)
			r = openReader(t, cfg)
			for _, after := range []*sinks.Cut{nil, &cut} {
				want := []string{"a@10", "a@20", "b@11", "c@21"}
				if after != nil {
					want = []string{"a@20", "c@21"}
				}
				if got := versionsOf(t, r, sinks.Query{After: after}); !slices.Equal(got, want) {
					t.Errorf("after %+v the log has %v, want %v; %d batches recovered", after, got, want, len(opened))
				}
			}
		})
	}
}

// For one object only its own partition is read. That partition is also found if partitions were added, over which keys are not
// spread.
func TestAnObjectIsReadAfterPartitionsWereAdded(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	b := &change.Batch{Epoch: 1, Seq: 1}
	for i := range 60 {
		b.Changes = append(b.Changes, created(fmt.Sprint("pod-", i), 10+i))
	}
	mustWrite(t, log, b)
	for _, partitions := range []int{3, 7} {
		if partitions > 3 {
			_, err := newReader(t, cfg.Brokers).admin.UpdatePartitions(servers.Context(t), partitions, cfg.TopicPrefix+".pods")
			mustDo(t, err)
		}
		r := openReader(t, cfg)
		for i := range 60 {
			q := sinks.Query{Resources: []string{"pods"}, Namespace: b.Changes[i].Namespace, Name: b.Changes[i].Name}
			if got := versionsOf(t, r, q); !slices.Equal(got, []string{fmt.Sprintf("pod-%d@%d", i, 10+i)}) {
				t.Errorf("of %d partitions: pod-%d is read as %v", partitions, i, got)
			}
		}
	}
}

// retainedSince returns since when a log has every change of pods.
func retainedSince(t *testing.T, r sinks.Reader) time.Time {
	t.Helper()
	retained, err := r.Retained(servers.Context(t), []string{"pods"})
	mustDo(t, err)
	return retained["pods"].Since
}

// This depends on the topic's own settings and its beginning, not on the exporter's settings.
func TestRetainedSince(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Partitions, cfg.TopicConfig = 1, map[string]string{"min.compaction.lag.ms": "3600000"}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	old, young := created("a", 10), created("b", 11)
	old.Time, young.Time = time.Now().Add(-3*time.Hour), time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{old}})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{young}})
	r := openReader(t, cfg)
	since := retainedSince(t, r)
	if lag := time.Since(since); lag < time.Hour || lag > time.Hour+time.Minute {
		t.Errorf("with min.compaction.lag.ms of an hour the log is retained since %s", since)
	}
	topic := cfg.TopicPrefix + ".pods"
	_, err := newReader(t, cfg.Brokers).admin.DeleteRecords(servers.Context(t), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 1}}})
	mustDo(t, err)
	if since = retainedSince(t, r); !since.Equal(young.Time) {
		t.Errorf("once the first record was deleted the log is retained since %s, want %s", since, young.Time)
	}
}

// BenchmarkRead reads 100,000 records of 4 KB, all and those of one object.
func BenchmarkRead(b *testing.B) {
	cfg := newConfig(b, servers.SharedKafka(b).Brokers)
	sink := newSink(b, cfg)
	defer sink.Close()
	opened, err := sink.Open(b.Context(), 0, 1, sinks.Durable{})
	mustDo(b, err)
	batch := podBatch(1000)
	for range 100 {
		batch.Seq++
		_, err := opened.Log.Write(b.Context(), batch)
		mustDo(b, err)
	}
	r := openReader(b, cfg)
	b.Run("since when it is complete", func(b *testing.B) {
		for b.Loop() {
			_, err := r.Retained(b.Context(), nil)
			mustDo(b, err)
		}
	})
	for name, q := range map[string]sinks.Query{"all": {}, "without bodies": {NoBodies: true},
		"one object": {Resources: []string{"pods"}, Namespace: "default", Name: "web-7"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				mustDo(b, r.Changes(b.Context(), q, func(*sinks.Logged) error { n++; return nil }))
				if want := 100_000; q.Name == "" && n != want || q.Name != "" && n != 100 {
					b.Fatalf("%d changes", n)
				}
			}
		})
	}
}
