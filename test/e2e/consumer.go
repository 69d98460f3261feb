package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// ReadLog reads every topic of the prefix from its start to its last stable offset.
func ReadLog(t testing.TB, brokers []string, prefix string) *Log {
	t.Helper()
	return readTopics(t, brokers, prefix, kafkatopics.Under(prefix))
}

// ReadControls reads only the control topic.
func ReadControls(t testing.TB, brokers []string, prefix string) []change.Control {
	t.Helper()
	return readTopics(t, brokers, prefix, kafkatopics.These(change.ControlTopic(prefix))).Controls
}

// followControls reads the control topic from its start, and goes on for some seconds until complete returns true. It reports
// whether that happened.
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
	ReadRecords(t, kafkatopics.Reading{Brokers: brokers, Wanted: wanted}, func(r *kgo.Record) error { return log.Add(r, prefix) })
	return log
}

// ReadRecords reads topics, by whomever they were written, and returns their ends.
func ReadRecords(t testing.TB, what kafkatopics.Reading, visit func(*kgo.Record) error) kadm.ListedOffsets {
	t.Helper()
	ctx, cancel := servers.Patient(context.Background())
	defer cancel()
	ends, err := what.Read(ctx, visit)
	must(t, err)
	return ends
}

// AwaitMarkers waits until all records written so far can be read in every topic of the prefix. A broker acknowledges a commit
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
			stableEnd, ok := stable.Lookup(end.Topic, end.Partition)
			behind = behind || !ok || stableEnd.Offset < end.Offset
		})
		return !behind, err
	})
}
