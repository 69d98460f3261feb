package compat

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/test/e2e"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// kinds are what consumers read, a topic each.
var kinds = []e2e.Kind{e2e.Pods, e2e.ConfigMaps}

// The names of their topics.
const pods, configmaps = "pods", "configmaps"

func (l topics) topic(resource string) string { return l.Prefix + "." + resource }

// complete returns once the logs have all changes, and lists the cluster.
func (t *trial) complete(test *testing.T, logs ...topics) {
	marks := t.writer.Marks(kinds)
	for _, log := range logs {
		t.world(log).AwaitMarks(test, marks)
	}
	var err error
	t.live, err = t.list(test.Context())
	must(test, err)
}

// reading reads a log's topics of changes.
func (t *trial) reading(log topics) kafkatopics.Reading {
	return kafkatopics.Reading{Brokers: t.kafka.Brokers, Wanted: kafkatopics.These(log.topic(pods), log.topic(configmaps))}
}

// abort writes records that must never be seen to all partitions of the logs, in transactions that are then aborted. They have other
// contents of objects that exist, deletes of them, and objects that do not exist.
func (t *trial) abort(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(t.kafka.Brokers...), kgo.TransactionalID("compat"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	var poison []*kgo.Record
	for _, log := range long {
		all, err := t.reading(log).Records(ctx)
		if err != nil {
			return err
		}
		poison = append(poison, poisonOf(all)...)
	}
	if err := client.ProduceSync(ctx, poison...).FirstErr(); err != nil {
		return fmt.Errorf("write records to be aborted: %w", err)
	}
	return client.EndTransaction(ctx, kgo.TryAbort)
}

const ghost = `{"before":null,"after":{"kind":"Ghost","metadata":{"name":"ghost"}},"op":"c","ts_ms":1,"source":{}}`

// poisonOf makes three records that are wrong for each partition, and one key in ten.
func poisonOf(all []*kgo.Record) (poison []*kgo.Record) {
	seen := map[string]bool{}
	for i, r := range all {
		add := func(key, value []byte) {
			poison = append(poison, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: key, Value: value})
		}
		if place := fmt.Sprint(r.Topic, r.Partition); !seen[place] {
			seen[place] = true
			add([]byte(fmt.Sprintf(`{"cluster":"%s","namespace":"shop","name":"ghost-%d"}`, clusterName, i)), []byte(ghost))
		}
		switch i % 10 {
		case 0:
			add(r.Key, []byte(ghost))
		case 5:
			add(r.Key, nil)
		}
	}
	return poison
}

// compact has the broker compact the topics of a log, and returns when it has. Then each key that had several records has one, and
// tombstones are gone after their time.
func (t *trial) compact(ctx context.Context, log topics, tombstones time.Duration) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(t.kafka.Brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	names := []string{log.topic(pods), log.topic(configmaps)}
	set := func(name, value string) kadm.AlterConfig { return kadm.AlterConfig{Name: name, Value: &value} }
	responses, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		set("cleanup.policy", "compact"), set("min.compaction.lag.ms", "0"), set("min.cleanable.dirty.ratio", "0.001"),
		set("segment.ms", "1"), set("delete.retention.ms", fmt.Sprint(tombstones.Milliseconds())),
	}, names...)
	for _, r := range responses {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return fmt.Errorf("have %v compacted: %w", names, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return err
	}
	say("compact %v", names)
	return servers.Until(ctx, "the compaction of "+log.Prefix, func() (bool, error) {
		if err := t.abort(ctx); err != nil { // a new segment begins with the next record
			return false, err
		}
		all, err := t.reading(log).Records(ctx)
		return isCompacted(all, ends, tombstones > 0), err
	})
}

func isCompacted(all []*kgo.Record, ends kadm.ListedOffsets, tombstones bool) bool {
	seen := map[string]bool{}
	for _, r := range all {
		end, _ := ends.Lookup(r.Topic, r.Partition)
		place := r.Topic + string(r.Key)
		if r.Offset < end.Offset && (seen[place] || r.Value == nil && !tombstones) {
			return false
		}
		seen[place] = true
	}
	return true
}
