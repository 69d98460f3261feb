package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// Record is one data record as a consumer sees it.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Key        string // namespace/name
	Op         string // c, u, d, r; "" for a tombstone
	UID        string
	Version    change.ResourceVersion
	Inferred   bool
	Provenance provenance
	Before     json.RawMessage
	After      json.RawMessage
	Bare       bool // there is no Before, and no tombstone after a delete
}

// provenance is what an object tells of its change.
type provenance struct {
	Managers      string
	FieldsChanged string
	TimeFrom      string `json:"ts_from"`
}

// Resource is the resource of the record's topic.
func (r *Record) Resource(prefix string) string { return strings.TrimPrefix(r.Topic, prefix+".") }

// Log is everything that a consumer which honours read_committed finds in the topics of a prefix.
type Log struct {
	Records  []Record // by topic and partition, in offset order
	Controls []change.Control
	Dead     []*kgo.Record
}

// ReadLog reads every topic of the prefix from its start to its last stable offset.
func ReadLog(t testing.TB, brokers []string, prefix string) *Log {
	t.Helper()
	return readTopics(t, brokers, prefix, kafkatopics.Under(prefix))
}

// ReadControls reads the control topic alone.
func ReadControls(t testing.TB, brokers []string, prefix string) []change.Control {
	t.Helper()
	return readTopics(t, brokers, prefix, kafkatopics.These(change.ControlTopic(prefix))).Controls
}

// followControls reads the control topic from its start and goes on reading, for some seconds, until the record that completes what is
// looked for.
func followControls(t testing.TB, brokers []string, prefix string, complete func(change.Control) bool) (found bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(250*time.Millisecond),
		kgo.ConsumeTopics(change.ControlTopic(prefix)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	for !found && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var c change.Control
			must(t, json.Unmarshal(r.Value, &c))
			found = found || complete(c)
		})
	}
	return found
}

func readTopics(t testing.TB, brokers []string, prefix string, wanted kafkatopics.Wanted) *Log {
	t.Helper()
	log := &Log{}
	ReadRecords(t, kafkatopics.Reading{Brokers: brokers, Wanted: wanted}, func(r *kgo.Record) error { return log.add(r, prefix) })
	return log
}

// ReadRecords reads topics, whoever has written them, and returns their ends.
func ReadRecords(t testing.TB, what kafkatopics.Reading, visit func(*kgo.Record) error) kadm.ListedOffsets {
	t.Helper()
	ctx, cancel := servers.Patient(context.Background())
	defer cancel()
	ends, err := what.Read(ctx, visit)
	must(t, err)
	return ends
}

// AwaitMarkers waits until what was written so far can be read in every topic of the prefix: a broker answers a commit
// before the transaction's markers are in all partitions.
func AwaitMarkers(t testing.TB, brokers []string, prefix string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	written, err := kafkatopics.Offsets(t.Context(), admin, kafkatopics.Under(prefix), admin.ListEndOffsets)
	must(t, err)
	Await(t, "the markers of all transactions", func() (bool, error) {
		stable, err := admin.ListCommittedOffsets(t.Context(), slices.Collect(maps.Keys(written))...)
		behind := false
		written.Each(func(end kadm.ListedOffset) {
			at, ok := stable.Lookup(end.Topic, end.Partition)
			behind = behind || !ok || at.Offset < end.Offset
		})
		return !behind, err
	})
}

func (l *Log) add(r *kgo.Record, prefix string) error {
	switch r.Topic {
	case prefix + ".control":
		c := change.Control{}
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return fmt.Errorf("control record at %d: %w", r.Offset, err)
		}
		l.Controls = append(l.Controls, c)
	case prefix + ".dead-letter":
		l.Dead = append(l.Dead, r)
	default:
		record, err := parseRecord(r)
		if err != nil {
			return fmt.Errorf("record %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		l.Records = append(l.Records, record)
	}
	return nil
}

// ByKey returns the records of one kind, by object.
func (l *Log) ByKey(prefix string, kind Kind) map[string][]Record {
	byKey := map[string][]Record{}
	for _, r := range l.Records {
		if r.Resource(prefix) == kind.ID() {
			byKey[r.Key] = append(byKey[r.Key], r)
		}
	}
	return byKey
}

func parseRecord(r *kgo.Record) (Record, error) {
	parse := encodings[header(r, change.HeaderEncoding)]
	if parse == nil {
		return Record{}, fmt.Errorf("encoding %q", header(r, change.HeaderEncoding))
	}
	out, err := parse(r)
	out.Topic, out.Partition, out.Offset = r.Topic, r.Partition, r.Offset
	return out, err
}

// parsePlain parses a record of the default encoding.
func parsePlain(r *kgo.Record) (out Record, err error) {
	key := struct{ Cluster, Namespace, Name string }{}
	if err := json.Unmarshal(r.Key, &key); err != nil {
		return out, err
	}
	out.Key = change.ObjectKey(key.Namespace, key.Name)
	if r.Value == nil {
		return out, nil
	}
	value := struct {
		Before, After json.RawMessage
		Op            string
		Source        struct {
			UID             string
			ResourceVersion change.ResourceVersion
			Inferred        bool
			provenance
		}
	}{}
	if err := json.Unmarshal(r.Value, &value); err != nil {
		return out, err
	}
	out.Op, out.UID, out.Version, out.Inferred = value.Op, value.Source.UID, value.Source.ResourceVersion, value.Source.Inferred
	out.Provenance = value.Source.provenance
	out.Before, out.After = value.Before, value.After
	return out, nil
}
