package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// Other programs write to the topics, also with the cluster's keys. Each way of opening and of reading the log skips their
// records, and warns once of those that resemble its own.
func TestForeignRecordsArePassedBy(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	cfg := newConfig(t, broker.Brokers)
	said := &lines{}
	cfg.Logger = slog.New(slog.NewTextHandler(said, nil))
	o := &owner{cfg: cfg}
	mustDo(t, o.open(t))
	o.write(t, 9)
	behind := sinks.Durable{Seq: o.from.Seq, Offsets: change.Offsets{}.Merge(o.from.Offsets)}
	litter(t, cfg)
	o.write(t, 9)
	litter(t, cfg)

	s := newSink(t, cfg)
	defer s.Close()
	for i, from := range []sinks.Durable{o.from, behind, {}, {New: true}} {
		mustDo(t, s.VerifyCluster(servers.Context(t), 0, from))
		opened, err := s.Open(servers.Context(t), 0, int64(2+i), from)
		mustDo(t, err)
		tail, lost, err := sinktest.Tail(servers.Context(t), opened)
		if want := int(o.from.Seq - from.Seq); err != nil || lost != nil || !from.New && len(tail) != want {
			t.Errorf("from %+v: %d batches, want %d; lost %v, error %v", from, len(tail), want, lost, err)
		}
		if !from.New {
			continue
		}
		state, err := opened.Content.State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return true }, Bodies: true})
		mustDo(t, err)
		_, err = state.Fold(servers.Context(t), func(*change.Change) error { return nil }, func(sinks.Progress) {})
		if err != nil || state.Seq != o.from.Seq {
			t.Errorf("a rebuild reads up to batch %d, want %d; error %v", state.Seq, o.from.Seq, err)
		}
	}
	wantReadable(t, cfg, o.batches...)
	for _, text := range []string{"another program has written it", "it is damaged"} {
		if n := strings.Count(said.String(), text); n == 0 || n > 3 { // two sinks and a reader warn
			t.Errorf("%q is said %d times:\n%s", text, n, said)
		}
	}
}

// litter writes what other programs may write.
func litter(t *testing.T, cfg kafka.Config) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	mustDo(t, err)
	defer client.Close()
	key := fmt.Appendf(nil, `{"cluster":%q,"slot":0}`, cfg.Cluster)
	pod := fmt.Appendf(nil, `{"cluster":%q,"namespace":"a","name":"b"}`, cfg.Cluster)
	own := func(pairs ...string) (all []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return all
	}
	values := [][]byte{nil, {}, []byte("{}"), []byte("[]"), []byte("null"), []byte(`"x"`), []byte(`{"version":99}`),
		[]byte(`{"slot":"x"}`),
		[]byte(`{"type":"batch","slot":0,"epoch":99,"batch":99}`), []byte("\x00\xff{"), bytes.Repeat([]byte("{"), 900_000)}
	var records []*kgo.Record
	for _, value := range values {
		for _, k := range [][]byte{nil, key, []byte("garbage"), pod} {
			records = append(records, &kgo.Record{Topic: cfg.TopicPrefix + ".control", Key: k, Value: value})
			if k == nil {
				continue // a compacted topic refuses these
			}
			records = append(records, &kgo.Record{Topic: cfg.TopicPrefix + ".pods", Key: k, Value: value},
				&kgo.Record{Topic: cfg.TopicPrefix + ".pods", Key: k, Value: value, Headers: own("op", "c", "stream", "another/stream")})
		}
		records = append(records, &kgo.Record{Topic: cfg.TopicPrefix + ".pods", Key: []byte("x"), Value: value,
			Headers: own("op", "c", "stream", "pods")})
	}
	for _, value := range [][]byte{nil, []byte("{"), []byte(`{"cluster":5}`)} { // as if they were damaged
		records = append(records, &kgo.Record{Topic: cfg.TopicPrefix + ".control", Key: key, Value: value,
			Headers: own("slot", "0", "epoch", "1", "batch", "1", "type", "batch")})
	}
	mustDo(t, client.ProduceSync(context.Background(), records...).FirstErr())
}

func wantReadable(t *testing.T, cfg kafka.Config, want ...*change.Batch) {
	t.Helper()
	r, err := kafka.OpenReader(servers.Context(t), cfg)
	mustDo(t, err)
	defer r.Close()
	batches, changes := 0, 0
	mustDo(t, r.Controls(servers.Context(t), time.Time{}, nil, func(c *change.Control) error {
		if c.Type == change.ControlBatch {
			batches++
		}
		return nil
	}))
	mustDo(t, r.Changes(servers.Context(t), sinks.Query{}, func(*sinks.Logged) error { changes++; return nil }))
	wanted := 0
	for _, b := range want {
		wanted += len(b.Changes)
	}
	if batches != len(want) || changes != wanted {
		t.Errorf("the reader has %d batches of %d changes, want %d of %d", batches, changes, len(want), wanted)
	}
	_, err = r.CutAt(servers.Context(t), time.Time{})
	mustDo(t, err)
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}
