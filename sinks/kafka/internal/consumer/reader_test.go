package consumer_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
	"kubecdc/test/require"
)

var must = require.NoError

// writer is one transactional producer on the only partition of a topic.
type writer struct {
	*producer.Producer
	*producer.Partition
}

func newWriter(t *testing.T, c *cluster.Client, id string) *writer {
	t.Helper()
	p, err := producer.New(t.Context(), c, producer.Options{TransactionalID: id, Timeout: time.Minute})
	must(t, err)
	return &writer{p, producer.NewTopic("t", 1, 1<<20).Partitions[0]}
}

// write writes a record, in a new transaction if none is open.
func (w *writer) write(t *testing.T, value string) {
	t.Helper()
	if !w.Producer.InTransaction() {
		w.Reset()
		must(t, w.Add(t.Context(), w.Partition))
	}
	w.QueueRecord(recordbatch.Record{Time: time.Now().UnixMilli(), Key: []byte("k"), Value: [][]byte{[]byte(value)}})
	must(t, w.Produce(t.Context(), w.Partition))
}

func (w *writer) end(t *testing.T, commit bool) {
	t.Helper()
	must(t, w.End(t.Context(), commit))
}

func newClient(t *testing.T) *cluster.Client {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	must(t, err)
	t.Cleanup(fake.Close)
	c := cluster.New(cluster.Options{Brokers: fake.ListenAddrs(), ClientID: "test", Dial: (&net.Dialer{}).DialContext,
		RequestTimeout: 5 * time.Second, ReplicationFactor: 1, Logger: slog.New(slog.DiscardHandler),
		Stuck: func(error) {}, Hint: func(error) string { return "" }})
	t.Cleanup(c.Close)
	return c
}

// Transactions on one partition overlap, and one does not end. Committed records come in the order of their offsets. Records of
// an aborted transaction don't come, even if its producer goes on.
func TestOnlyCommittedRecordsAreVisited(t *testing.T) {
	c := newClient(t)
	a, b, open := newWriter(t, c, "a"), newWriter(t, c, "b"), newWriter(t, c, "open")
	open.write(t, "open")
	a.write(t, "aborted 1")
	b.write(t, "first")
	a.write(t, "aborted 2")
	a.end(t, false)
	a.write(t, "second") // commits after the third
	b.write(t, "third")
	b.end(t, true)
	a.end(t, true)
	ends, err := c.Ends(t.Context(), "t")
	must(t, err)
	for name, test := range map[string]struct {
		first   int64
		stops   []int64 // offsets to read to, one after another
		visited []string
		fetched int
	}{
		"all at once":            {0, []int64{ends[0] - 1}, []string{"first", "second", "third"}, 6},
		"in steps":               {0, []int64{2, 3, 5, ends[0] - 1}, []string{"first", "second", "third"}, 6},
		"up to before a commit":  {0, []int64{6}, nil, 6},
		"from amid transactions": {3, []int64{ends[0] - 1}, []string{"second", "third"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var visited []string
			fetched := 0
			r := consumer.New(c, consumer.Range{Topic: "t", First: test.first,
				Fetched: func(*consumer.Record) error { fetched++; return nil },
				Visit:   func(r consumer.Record) error { visited = append(visited, string(r.Value)); return nil }})
			for _, last := range test.stops {
				must(t, r.ReadTo(t.Context(), last))
			}
			if !slices.Equal(visited, test.visited) || fetched != test.fetched {
				t.Errorf("visited %q of %d records, not %q of %d", visited, fetched, test.visited, test.fetched)
			}
		})
	}
}

func TestRecordsAfterTheEndAreGone(t *testing.T) {
	c := newClient(t)
	w := newWriter(t, c, "a")
	w.write(t, "only")
	w.end(t, true)
	r := consumer.New(c, consumer.Range{Topic: "t", Visit: func(consumer.Record) error { return nil }})
	if err := r.ReadTo(t.Context(), 5); !errors.Is(err, consumer.ErrGone) {
		t.Errorf("error is %v", err)
	}
	own := errors.New("the visitor's own")
	r = consumer.New(c, consumer.Range{Topic: "t", Visit: func(consumer.Record) error { return fmt.Errorf("visit: %w", own) }})
	if err := r.ReadTo(t.Context(), 1); !errors.Is(err, own) {
		t.Errorf("error is %v", err)
	}
}
