package kafka_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// All readers of the log refuse a control record of a newer release, before anything is written and before anybody is fenced.
func TestALogOfANewerReleaseIsRefused(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	known := mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}})
	r := newReader(t, cfg.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	topic := change.ControlTopic(cfg.TopicPrefix)
	for p, records := range r.committed(t, cfg.Brokers, topic) {
		last := records[len(records)-1]
		newer := bytes.Replace(last.Value, []byte(`"version":1,`), []byte(`"version":2,`), 1)
		if bytes.Equal(newer, last.Value) {
			t.Fatalf("the control record has no version: %s", last.Value)
		}
		mustDo(t, r.client.ProduceSync(servers.Context(t), &kgo.Record{Topic: topic, Partition: p, Key: last.Key, Value: newer, Headers: last.Headers}).FirstErr())
	}
	before := r.settled(t, topic)
	for _, from := range []sinks.Durable{{}, {New: true}, {Seq: 1, Offsets: known}} {
		sink := newSink(t, cfg)
		_, err := sink.Open(servers.Context(t), 0, 2, from)
		wantNewer(t, err)
		wantNewer(t, sink.VerifyCluster(servers.Context(t), 0, from))
		mustDo(t, sink.Close())
	}
	reader, err := kafka.OpenReader(servers.Context(t), cfg)
	mustDo(t, err)
	defer reader.Close()
	wantNewer(t, reader.Controls(servers.Context(t), time.Time{}, nil, func(*change.Control) error { return nil }))
	if after := r.settled(t, topic); after[topic][0].Offset != before[topic][0].Offset {
		t.Errorf("the control topic ends at %v, and ended at %v", after, before)
	}
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{created("b", 11)}})
}

// The same is true for a change's record, if no control record is left.
func TestARecordOfANewerReleaseIsRefused(t *testing.T) {
	cfg := newConfig(t, servers.SharedKafka(t).Brokers)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	mustWrite(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{created("a", 10)}})
	r := newReader(t, cfg.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	topic := cfg.TopicPrefix + ".pods"
	for p, records := range r.committed(t, cfg.Brokers, topic) {
		newer := *records[0]
		newer.Partition, newer.Headers = p, append(newer.Headers, kgo.RecordHeader{Key: change.HeaderVersion, Value: []byte("2")})
		mustDo(t, r.client.ProduceSync(servers.Context(t), &newer).FirstErr())
	}
	opened, err := newSink(t, cfg).Open(servers.Context(t), 0, 2, sinks.Durable{New: true})
	mustDo(t, err)
	defer opened.Log.Close()
	state, err := opened.Content.State(servers.Context(t), sinks.Selection{Stream: func(change.StreamID) bool { return true }, Bodies: true})
	mustDo(t, err)
	_, err = state.Fold(servers.Context(t), func(*change.Change) error { return nil }, func(sinks.Progress) {})
	wantNewer(t, err)
	reader, err := kafka.OpenReader(servers.Context(t), cfg)
	mustDo(t, err)
	defer reader.Close()
	wantNewer(t, reader.Changes(servers.Context(t), sinks.Query{}, func(*sinks.Logged) error { return nil }))
}

func wantNewer(t *testing.T, err error) {
	t.Helper()
	var newer *change.NewerVersionError
	if !errors.As(err, &newer) || newer.Version != "2" {
		t.Errorf("error is %v, want one about a newer release", err)
	}
}
