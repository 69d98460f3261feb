package kafka_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// reader reads topics with an independent client, with isolation level read_committed.
type reader struct {
	client *kgo.Client
	admin  *kadm.Client
}

func newReader(t *testing.T, brokers []string, opts ...kgo.Opt) *reader {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...)}, opts...)...)
	mustDo(t, err)
	t.Cleanup(c.Close)
	return &reader{client: c, admin: kadm.NewClient(c)}
}

// settled waits until no transaction is open. A broker answers a commit before its markers are written, and may not know a new
// topic for a moment.
func (r *reader) settled(t *testing.T, topic string) kadm.ListedOffsets {
	t.Helper()
	for clock := servers.StartClock(); ; time.Sleep(20 * time.Millisecond) {
		stable, err1 := r.admin.ListCommittedOffsets(servers.Context(t), topic)
		ends, err2 := r.admin.ListEndOffsets(servers.Context(t), topic)
		err := errors.Join(err1, err2, stable.Error(), ends.Error())
		if err == nil && maps.Equal(stable[topic], ends[topic]) {
			return stable
		}
		if clock.Late() {
			t.Fatalf("a transaction on %s is still open: %v of %v, %v", topic, stable, ends, err)
		}
	}
}

// committed returns all committed records of a topic up to its last stable offset, by partition.
func (r *reader) committed(t *testing.T, brokers []string, topic string, opts ...kgo.Opt) map[int32][]*kgo.Record {
	t.Helper()
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	ends := r.settled(t, topic)
	from, open := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition], open[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	got := map[int32][]*kgo.Record{}
	if len(open) == 0 {
		return got
	}
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	mustDo(t, err)
	defer c.Close()
	for len(open) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if !rec.Attrs.IsControl() {
				got[rec.Partition] = append(got[rec.Partition], rec)
			}
			if rec.Offset+1 >= open[rec.Partition] {
				delete(open, rec.Partition)
			}
		})
	}
	return got
}

// value is a record that a consumer has parsed.
type value struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Op     string          `json:"op"`
	TsMs   int64           `json:"ts_ms"`
	Source map[string]any  `json:"source"`
}

func parse(t *testing.T, r *kgo.Record) value {
	t.Helper()
	var v value
	if err := json.Unmarshal(r.Value, &v); err != nil {
		t.Fatalf("value at %s/%d offset %d: %v\n%.200s", r.Topic, r.Partition, r.Offset, err, r.Value)
	}
	return v
}

func headers(r *kgo.Record) map[string]string {
	m := map[string]string{}
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

// seen is a change as a consumer sees it.
type seen struct{ op, rv string }

// histories returns each object's changes as a consumer sees them, and checks that each delete is followed by its tombstone.
func histories(t *testing.T, partitions map[int32][]*kgo.Record) map[string][]seen {
	t.Helper()
	all := map[string][]seen{}
	for p, records := range partitions {
		for i, r := range records {
			if r.Value == nil {
				if i == 0 || !bytes.Equal(records[i-1].Key, r.Key) || headers(records[i-1])["op"] != "d" {
					t.Errorf("partition %d offset %d: a tombstone does not follow its delete", p, r.Offset)
				}
				if op := headers(r)["op"]; op != "tombstone" {
					t.Errorf("partition %d offset %d: the op of a tombstone is %q", p, r.Offset, op)
				}
				continue
			}
			h := headers(r)
			if h["op"] == "d" && (i+1 == len(records) || records[i+1].Value != nil || !bytes.Equal(records[i+1].Key, r.Key)) {
				t.Errorf("partition %d offset %d: a delete is not followed by its tombstone", p, r.Offset)
			}
			all[string(r.Key)] = append(all[string(r.Key)], seen{h["op"], h["resourceVersion"]})
		}
	}
	return all
}

// wantOnce checks that every change of the batches is in the log once, in order.
func wantOnce(t *testing.T, partitions map[int32][]*kgo.Record, batches ...*change.Batch) {
	t.Helper()
	e, want := change.Envelope{Cluster: "test"}, map[string][]seen{}
	for _, b := range batches {
		for i := range b.Changes {
			c := &b.Changes[i]
			key := string(e.AppendKey(nil, c))
			want[key] = append(want[key], seen{c.Op.String(), string(c.ResourceVersion)})
		}
	}
	got := histories(t, partitions)
	if len(got) != len(want) {
		t.Errorf("the log has %d objects, want %d", len(got), len(want))
	}
	bad := 0
	for key, w := range want {
		if g := got[key]; len(g) != len(w) || !equal(g, w) {
			if bad++; bad < 5 {
				t.Errorf("%s: the log says %v, want %v", key, g, w)
			}
		}
	}
}

func equal(a, b []seen) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
