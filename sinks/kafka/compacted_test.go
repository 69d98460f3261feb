package kafka_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// Kafka compacts the topic, tombstones included, while the checkpoint is far behind. A lost checkpoint is rebuilt from the
// remaining records. A checkpoint that is behind is not rolled forward over batches whose deletions may be missing.
func TestACheckpointIsRebuiltFromACompactedTopic(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Partitions = 1
	cfg.TopicConfig = map[string]string{"min.compaction.lag.ms": "0", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0", "segment.ms": "1000"}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	seq, written := uint64(0), time.Now().Add(-10*time.Hour)
	next := func(changes ...change.Change) change.Offsets {
		seq, written = seq+1, written.Add(2*time.Second) // each batch begins a segment, and no batch is in the future
		for i := range changes {
			changes[i].Time = written
		}
		return mustWrite(t, log, &change.Batch{Epoch: 1, Seq: seq, Changes: changes,
			Positions: []change.Position{{Stream: "pods", ResourceVersion: changes[0].ResourceVersion}}})
	}
	behind := next(created("a", 10), created("b", 11), created("c", 12), created("gone", 13))
	deleted := created("gone", 21)
	deleted.Op, deleted.Before, deleted.After = change.Delete, deleted.After, nil
	next(created("a", 20), deleted, created("e", 22))
	next(created("a", 30), created("b", 31))
	topic := cfg.TopicPrefix + ".pods"
	r := newReader(t, cfg.Brokers)
	servers.Await(t, "Kafka to compact "+topic, func() (bool, error) { // this takes two passes, and new records before each
		next(created(fmt.Sprint("filler-", seq), 40+int(seq)))
		records := r.committed(t, cfg.Brokers, topic)[0]
		time.Sleep(200 * time.Millisecond) // so that there are not too many
		return !slices.ContainsFunc(records, func(r *kgo.Record) bool {
			return r.Value == nil || strings.Contains(string(r.Key), `"gone"`) || headers(r)[change.HeaderResourceVersion] == "10"
		}), nil
	})

	state, objects := fold(t, cfg, 2)
	if fillers := len(objects) - 4; fillers != int(seq)-3 {
		t.Errorf("the log has %d fillers, want %d", fillers, seq-3)
	}
	maps.DeleteFunc(objects, func(_ string, c change.Change) bool { return strings.HasPrefix(c.Name, "filler-") })
	wantVersions(t, objects, "a@30", "b@31", "c@12", "e@22")
	if state.Seq != seq || state.Lost != nil || state.Positions[0].ResourceVersion != change.VersionOf(39+seq) {
		t.Errorf("the state is %+v, want batch %d", state, seq)
	}
	known := sinks.Durable{Seq: state.Seq, Offsets: state.Offsets}
	log, _ = openLog(t, newSink(t, cfg), 0, 3, known)
	mustWrite(t, log, &change.Batch{Epoch: 3, Seq: seq + 1, Changes: []change.Change{created("f", 500)}})
	_, recovered := openLog(t, newSink(t, cfg), 0, 4, known)
	if len(recovered) != 1 || recovered[0].Batch.Seq != seq+1 {
		t.Errorf("recovered %+v, want batch %d", recovered, seq+1)
	}

	opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 5, sinks.Durable{Seq: 1, Offsets: behind})
	mustDo(t, err)
	recovered, lost, err := sinktest.Tail(servers.Context(t), opened)
	if err != nil || lost == nil || lost.TailRead || len(recovered) > 0 {
		t.Errorf("a checkpoint that is behind is rolled forward over %d batches, lost %v, error %v", len(recovered), lost, err)
	}
	holeIn(t, cfg, "")
}

// A topic is compacted, and then its history is raised. The settings say that nothing may be gone, but what is gone is found out.
// What is still there counts. That may be a part of a record batch, or a tombstone, in whose batch another time is in place of its own.
func TestCompactedRecordsRemainKnown(t *testing.T) {
	for _, together := range []int{1, 6} {
		for _, encoding := range []string{"debezium", "object"} {
			t.Run(fmt.Sprint(together, " changes in a batch, as ", encoding), func(t *testing.T) {
				t.Parallel()
				testCompactedRecordsRemainKnown(t, together, encoding)
			})
		}
	}
}

func testCompactedRecordsRemainKnown(t *testing.T, together int, encoding string) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Partitions, cfg.Encoding = 2, encoding
	cfg.TopicConfig = map[string]string{"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0", "segment.ms": "1000"}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	topic, written, seq := cfg.TopicPrefix+".pods", map[string]time.Time{}, uint64(0)
	next := func(n int) {
		for range n {
			seq++
			b := &change.Batch{Epoch: 1, Seq: seq}
			for i := range together {
				name := fmt.Sprint("pod-", seq%5)
				switch {
				case i > 0:
					name = fmt.Sprint("pod-", seq, "-", i) // remains
				case seq%4 < 2:
					name = fmt.Sprint("gone-", seq/4)
				}
				c := created(name, len(written)+1)
				if i == 0 && seq%4 == 1 {
					c.Op, c.Before, c.After = change.Delete, c.After, nil
				}
				c.Time = time.Now().Add(-10*time.Hour + time.Duration(len(written))*2*time.Second).Truncate(time.Millisecond)
				written[string(c.ResourceVersion)] = c.Time
				b.Changes = append(b.Changes, c)
			}
			mustWrite(t, log, b)
		}
	}
	r := newReader(t, cfg.Brokers)
	left := func() map[string]bool {
		found := map[string]bool{}
		for _, records := range r.committed(t, cfg.Brokers, topic) {
			for _, record := range records {
				found[headers(record)[change.HeaderResourceVersion]] = true
			}
		}
		return found
	}
	next(30) // each change begins a segment, and all but the last in each partition can be compacted
	servers.Await(t, "Kafka to compact "+topic, func() (bool, error) {
		next(1)                            // a partition without new records may not be checked again
		time.Sleep(200 * time.Millisecond) // so that there are not too many
		return len(left()) < len(written), nil
	})
	r.configure(t, topic, "min.compaction.lag.ms", "604800000") // all records of a week from now on
	next(3)
	retained, found := 0, left() // counted before the question, since a running compaction may still end
	since := retainedSince(t, openReader(t, cfg))
	for version, offset := range written {
		switch {
		case !offset.Before(since) && !found[version]:
			t.Errorf("the log is retained since %s, and lacks the change at %s of %s", since, version, offset)
		case !offset.Before(since):
			retained++
		}
	}
	if retained < 3 {
		t.Errorf("of %d changes, of which %d are left, %d count as retained, since %s", len(written), len(found), retained, since)
	}
	holeIn(t, cfg, "")
}

// Compaction has removed only the first record of a partition. No gap in the offsets shows when it was written.
func TestAHoleAtTheStartOfAPartitionIsKnown(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	cfg.Partitions = 1
	cfg.TopicConfig = map[string]string{"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0", "segment.ms": "1000"}
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	topic, seq, began := cfg.TopicPrefix+".pods", 0, time.Now().Add(-10*time.Hour).Truncate(time.Millisecond)
	next := func(name string) (written time.Time) {
		seq++
		c := created(name, seq)
		c.Time = began.Add(time.Duration(seq) * 2 * time.Second) // each begins a segment
		mustWrite(t, log, &change.Batch{Epoch: 1, Seq: uint64(seq), Changes: []change.Change{c}})
		return c.Time
	}
	taken, left := next("a"), next("b")
	next("a")
	r := newReader(t, cfg.Brokers)
	servers.Await(t, "Kafka to compact "+topic, func() (bool, error) {
		next(fmt.Sprint("filler-", seq))
		time.Sleep(200 * time.Millisecond) // so that there are not too many
		return headers(r.committed(t, cfg.Brokers, topic)[0][0])[change.HeaderResourceVersion] == "2", nil
	})
	r.configure(t, topic, "min.compaction.lag.ms", "604800000") // all records of a week from now on
	since := retainedSince(t, openReader(t, cfg))
	if !since.After(taken) || since.After(left) {
		t.Errorf("the log is retained since %s; the change of %s is gone, and the one of %s is there", since, taken, left)
	}
	holeIn(t, cfg, "")
}
