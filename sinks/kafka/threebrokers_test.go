package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/test/servers"
)

// Operators work on a cluster of three brokers, three replicas and min.insync.replicas=2, while slots write by both protocols.
// They upgrade its release, move its partitions, lose a disk, and restart one broker after another. Every batch is in the log
// once.
func TestSlowThreeBrokers(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	missing, err := servers.Install(servers.Context(t), func(line string) { t.Log(line) }, servers.OlderKafkaPart)
	if err != nil || len(missing) > 0 {
		t.Fatal(err, missing)
	}
	brokers, seeds := threeBrokers(t)
	admin := kadmOf(t, seeds)
	t.Run("upgraded", func(t *testing.T) {
		byBothProtocols(t, seeds, func(await func(n int)) {
			for _, b := range slices.Backward(brokers) {
				mustDo(t, b.Upgrade(servers.Context(t)))
				awaitReplicas(t, admin)
				await(3)
			}
			raiseFeatures(t, admin, seeds)
			await(6)
		})
	})
	t.Run("restarted", func(t *testing.T) {
		byBothProtocols(t, seeds, func(await func(n int)) {
			for _, b := range slices.Backward(brokers) {
				mustDo(t, b.Restart(servers.Context(t)))
				awaitReplicas(t, admin)
				await(3)
			}
		})
	})
	t.Run("reassigned", func(t *testing.T) {
		byBothProtocols(t, seeds, func(await func(n int)) {
			for first := range int32(3) {
				reassign(t, admin, []int32{1 + first, 1 + (first+1)%3})
				await(3)
			}
			reassign(t, admin, []int32{1, 2, 3})
		})
	})
	t.Run("a disk fails", func(t *testing.T) {
		byBothProtocols(t, seeds, func(await func(n int)) {
			mustDo(t, brokers[2].FailDisk())
			awaitOffline(t, admin)
			await(12)
		})
	})
}

// threeBrokers starts a real cluster of the previous release. Each broker has two disks.
func threeBrokers(t *testing.T) (brokers []*servers.Kafka, seeds []string) {
	t.Helper()
	three := map[string]string{"default.replication.factor": "3", "min.insync.replicas": "2", "transaction.state.log.replication.factor": "3",
		"transaction.state.log.min.isr": "2", "offsets.topic.replication.factor": "3"}
	brokers = []*servers.Kafka{startKafka(t, servers.KafkaOptions{Joined: true, Older: true, TwoDisks: true, Properties: three})}
	for i := range 2 {
		b, err := brokers[i].Join(servers.Context(t))
		mustDo(t, err)
		t.Cleanup(func() {
			if err := b.Stop(); err != nil {
				t.Error(err)
			}
		})
		brokers = append(brokers, b)
	}
	for _, b := range brokers {
		seeds = append(seeds, b.Brokers...)
	}
	return brokers, seeds
}

// byBothProtocols runs slots that write by each protocol while breaks runs.
func byBothProtocols(t *testing.T, seeds []string, breaks func(await func(n int))) {
	t.Helper()
	one, two := newConfig(t, seeds), newestConfig(t, seeds)
	one.RequestTimeout, two.RequestTimeout = 5*time.Second, 5*time.Second
	underFaults(t, one, seeds, time.Minute, func(written1 func() int) {
		underFaults(t, two, seeds, time.Minute, func(written2 func() int) {
			both := func() int { return min(written1(), written2()) }
			await(t, both, 6)
			breaks(func(n int) { await(t, both, n) })
			await(t, both, 6)
		})
	})
}

// awaitReplicas waits until each partition has all its replicas in sync, as recommended between restarts.
func awaitReplicas(t *testing.T, admin *kadm.Client) {
	t.Helper()
	servers.Await(t, "all replicas to be in sync", func() (bool, error) {
		topics, err := admin.ListTopicsWithInternal(servers.Context(t))
		synced := err == nil
		topics.EachPartition(func(p kadm.PartitionDetail) { synced = synced && p.Err == nil && len(p.ISR) == len(p.Replicas) })
		return synced, nil
	})
}

// raiseFeatures ends an upgrade: the cluster uses the new release's features.
func raiseFeatures(t *testing.T, admin *kadm.Client, seeds []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	mustDo(t, err)
	defer client.Close()
	res, err := kmsg.NewPtrApiVersionsRequest().RequestWith(servers.Context(t), client)
	mustDo(t, err)
	var updates []kadm.FeatureUpdate
	for _, f := range res.SupportedFeatures {
		if f.Name == "metadata.version" || f.Name == "eligible.leader.replicas.version" {
			updates = append(updates, kadm.FeatureUpdate{Feature: f.Name, MaxVersionLevel: f.MaxVersion, UpgradeType: 1})
		}
	}
	done, err := admin.UpdateFeatures(servers.Context(t), false, updates...)
	mustDo(t, err)
	for _, f := range done {
		mustDo(t, f.Err)
	}
}

// reassign moves every partition, including those of __transaction_state, to these brokers, and waits until they are there.
func reassign(t *testing.T, admin *kadm.Client, to []int32) {
	t.Helper()
	topics, err := admin.ListTopicsWithInternal(servers.Context(t))
	mustDo(t, err)
	var moves kadm.AlterPartitionAssignmentsReq
	topics.EachPartition(func(p kadm.PartitionDetail) { moves.Assign(p.Topic, p.Partition, to) })
	answers, err := admin.AlterPartitionAssignments(servers.Context(t), moves)
	mustDo(t, errors.Join(err, answers.Error()))
	servers.Await(t, fmt.Sprintf("the partitions to be on %v", to), func() (bool, error) {
		open, err := admin.ListPartitionReassignments(servers.Context(t), nil)
		return err == nil && len(open) == 0, nil
	})
	_, err = admin.ElectLeaders(servers.Context(t), kadm.ElectPreferredReplica, nil)
	mustDo(t, err)
}

// awaitOffline waits until the replicas on a lost disk are offline.
func awaitOffline(t *testing.T, admin *kadm.Client) {
	t.Helper()
	servers.Await(t, "replicas to be offline", func() (bool, error) {
		topics, err := admin.ListTopicsWithInternal(servers.Context(t))
		offline := 0
		topics.EachPartition(func(p kadm.PartitionDetail) { offline += len(p.OfflineReplicas) })
		return err == nil && offline > 0, nil
	})
}
