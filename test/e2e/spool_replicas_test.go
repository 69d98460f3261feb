package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// A replica that spools is cut off from the sink, and another one is not. The first one does not count for the other any more. The other
// takes over its slot, and reads what the first one has in its spool. That spool is put aside later.
func TestSlowATakeoverFromAReplicaThatSpools(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane := w.Kafka.Lane(t)
	writer, slots := w.Writer(t, Kinds), readLeases(t, w)
	writer.Fill(20)
	first := StartExporter(t, "the first", ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address))).AwaitReady(t)
	second := StartExporter(t, "the second", ownSpool(t, w.Env)).AwaitReady(t)
	w.AwaitComplete(t, writer, Kinds)
	stop := writer.Start(20)
	lane.Cut()
	first.awaitLogged(t, "the sink does not take batches: they go into the spool")
	Await(t, "the first not to count for the second", func() (bool, error) { return second.Metric(t, "kubecdc_replicas", "") == 1, nil })
	slots.await("a takeover from a replica that spools", 1, second)
	first.awaitLogged(t, "stepping down: the slots are released to the other replicas")
	awaitMade(t, writer, writer.Made.Load()+50)
	must(t, lane.Restore())
	Await(t, "nothing to be wrong", func() (bool, error) { return first.Wrong() == "", nil })
	second.Kill()
	slots.await("the other is killed", 1, first)
	first.awaitLogged(t, "the spool can't be forwarded: it is put aside")
	awaitMade(t, writer, writer.Made.Load()+50)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// The sink is away for all replicas. The one that spools is killed, and etcd forgets what it has read. The other one does not take over
// its slot. A process with the spool goes on.
func TestSlowNoTakeoverWithoutTheSink(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	lane := w.Kafka.Lane(t)
	w.Env["KUBECDC_KAFKA_BROKERS"] = lane.Address
	writer, slots, env := w.Writer(t, Kinds), readLeases(t, w), ownSpool(t, w.Env)
	writer.Fill(20)
	first := StartExporter(t, "the first", env).AwaitReady(t)
	second := StartExporter(t, "the second", ownSpool(t, w.Env)).AwaitReady(t)
	w.AwaitComplete(t, writer, Kinds)
	lane.Cut()
	writer.Run(50)
	first.awaitSpooled(t, writer.Marks(Kinds))
	must(t, w.Kube.Compact(t.Context(), 0))
	stop := writer.Start(20)
	first.Kill()
	slots.await("a kill", 0)
	for end := time.Now().Add(3 * lease); time.Now().Before(end); time.Sleep(lease / 10) {
		if held := slots.held(); len(held) > 0 {
			t.Fatalf("a replica without the sink has taken over: %v", held)
		}
	}
	first = StartExporter(t, "the first again", env)
	slots.await("a start with the spool", 1, first)
	stop()
	first.awaitSpooled(t, writer.Marks(Kinds))
	must(t, w.Kube.Compact(t.Context(), 0))
	must(t, lane.Restore())
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	Await(t, "nothing to be wrong", func() (bool, error) { return second.Wrong() == "", nil })
}

// Two of three brokers are killed, so that no write has enough replicas. They come back one by one.
func TestSlowBrokersComeBackOneByOne(t *testing.T) {
	servers.Slow(t)
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	brokers := threeBrokers(t)
	w.toTopics(brokers[0], servers.UniqueName())
	var seeds []string
	for _, b := range brokers {
		seeds = append(seeds, b.Brokers...)
	}
	writer := w.Writer(t, Kinds).Fill(20)
	e := StartExporter(t, "the exporter", ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", strings.Join(seeds, ","),
		"KUBECDC_KAFKA_REPLICATION_FACTOR", "3"))).AwaitReady(t)
	w.AwaitComplete(t, writer, Kinds)
	brokers[1].Kill()
	writer.Run(50)
	w.AwaitComplete(t, writer, Kinds)
	brokers[2].Kill()
	for range 2 {
		writer.Run(50)
		e.awaitSpooled(t, writer.Marks(Kinds))
		must(t, w.Kube.Compact(t.Context(), 0))
	}
	e.awaitMetric(t, "kubecdc_spool_batches", "", 1)
	for i, b := range brokers[1:] {
		must(t, b.Start(t.Context()))
		writer.Run(50)
		w.AwaitComplete(t, writer, Kinds)
		e.awaitWell(t, fmt.Sprintf("%d of 3 brokers", i+2))
	}
	e.awaitLogged(t, "the sink has all that was in the spool")
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

func threeBrokers(t *testing.T) []*servers.Kafka {
	t.Helper()
	first, err := servers.StartKafka(t.Context(), servers.KafkaOptions{Joined: true, Properties: map[string]string{"default.replication.factor": "3",
		"min.insync.replicas": "2", "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}})
	must(t, err)
	t.Cleanup(func() { _ = first.Stop() })
	all := []*servers.Kafka{first}
	for range 2 {
		b, err := all[len(all)-1].Join(t.Context())
		must(t, err)
		t.Cleanup(func() { _ = b.Stop() })
		all = append(all, b)
	}
	return all
}
