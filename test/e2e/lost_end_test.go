package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// The sink's Postgres fails over, under a running exporter, to a standby that was behind. The log has lost its last batches,
// deletions among them. The exporter writes again from there: every change is in the log once, in order. No write is under way that
// could fail.
func TestTheSinksPostgresFailsOverToAStandbyThatWasBehind(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	standby, err := w.Postgres.Standby(context.Background())
	must(t, err)
	t.Cleanup(func() { _ = standby.Stop() })
	proxy, err := servers.NewProxy(w.Postgres.Address)
	must(t, err)
	t.Cleanup(proxy.Close)
	kinds := []Kind{ConfigMaps, Secrets, Roles}
	writer := w.Writer(t, kinds).Fill(10)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_SLOTS", "2", "KUBECDC_WATERMARK_INTERVAL", "1m",
		"KUBECDC_SINK_POSTGRES", w.Postgres.URLAt(proxy.Address, "kubecdc"), "KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	writer.Run(50)
	have := len(w.AwaitComplete(t, writer, kinds).Records)
	Await(t, "the standby to have followed", func() (bool, error) {
		return len(ReadTables(t, standby.URL, w.Prefix).Records) >= have, nil
	})
	standby.Upstream.Cut()
	writer.Run(50)
	w.AwaitComplete(t, writer, kinds)
	lost := len(w.Read(t).Records) - len(ReadTables(t, standby.URL, w.Prefix).Records)
	if lost < 25 {
		t.Fatalf("the standby lacks %d records: nothing is tried", lost)
	}
	must(t, standby.Promote(context.Background()))
	connections := proxy.Accepted()
	proxy.Retarget(standby.Address)
	proxy.Drop()
	w.Postgres.Kill()
	Await(t, "the exporter to be connected again", func() (bool, error) { return proxy.Accepted() > connections, nil })
	w.Postgres = standby
	writer.Run(50)
	log := w.AwaitComplete(t, writer, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	wantObjects(t, w, kinds)
	e.awaitLogged(t, "the log has lost records", "fail over to a standby that was behind")
}

// A broker that was behind becomes the leader of a data topic, the control topic, or both. So they have lost their ends,
// deletions too. The log is compared where it was complete, so that it has the cluster's state, and every change since. A gap
// record says so. Other topics go on undisturbed.
func TestSlowATopicThatLosesItsEndInAnUncleanElection(t *testing.T) {
	servers.Slow(t)
	for name, lost := range map[string][]string{"data": {ConfigMaps.ID()}, "control": {"control"}, "both": {ConfigMaps.ID(), "control"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewBrokerWorld(t, servers.KafkaOptions{Joined: true})
			kinds := []Kind{ConfigMaps, Secrets}
			writer := w.Writer(t, kinds).Fill(10)
			env := w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_SLOTS", "2")
			runFor(t, env, func() { w.AwaitComplete(t, writer, kinds) }) // all topics are on the first broker
			ahead, behind := join(t, w.Kafka), (*servers.Kafka)(nil)
			behind = join(t, ahead)
			for _, topic := range lost {
				moveTopic(t, w, w.Prefix+"."+topic, 2, 3)
			}
			StartExporter(t, "an exporter", env).AwaitReady(t)
			writer.Run(40)
			w.AwaitComplete(t, writer, kinds)

			behind.Kill()
			writer.Run(40)
			w.AwaitComplete(t, writer, kinds)
			ahead.Kill()
			must(t, behind.Start(context.Background()))
			writer.Run(50)
			w.AwaitComplete(t, writer, kinds)
			w.awaitCompared(t, ConfigMaps) // which may be behind a spool
			writer.Run(50)
			log := w.AwaitComplete(t, writer, kinds)
			WantState(t, w, log, kinds...)
			switch name {
			case "control":
				w.judgeSinceLoss(t, log, kinds...)
			default:
				wantLossSaid(t, log, w.Prefix+"."+ConfigMaps.ID(), ConfigMaps)
				w.judgeSinceLoss(t, log, ConfigMaps)
			}
			if name == "data" {
				Judge(t, w.Kube, log, w.Prefix, []Kind{Secrets}).Demand(t, 0)
			}
		})
	}
}

// Without transactions a topic also has the records of an unfinished batch. If it has lost its end in another partition, a list
// follows the records that consumers have read, unfinished ones too. No older record follows them, and no deleted object is deleted
// again.
func TestSlowATopicThatLosesItsEndWithAnUnfinishedBatch(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewFragileWorld(t)
	kinds := []Kind{ConfigMaps}
	writer := w.Writer(t, kinds).Fill(10)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_KAFKA_DELIVERY", "at-least-once")
	runFor(t, env, func() {
		writer.Run(40)
		w.AwaitComplete(t, writer, kinds)
	})
	writer.Run(40)
	dying := StartExporter(t, "an exporter that dies", withSettings(env, "KUBECDC_FAILPOINT", failpoint.DataProduced+":1"))
	dying.Wait(t)

	w.Kafka.Kill()
	topic := w.Prefix + "." + ConfigMaps.ID()
	cut, err := w.Kafka.CutLast(topic+"-0", 3)
	must(t, err)
	if cut != 3 {
		t.Fatalf("%d writes were cut off", cut)
	}
	must(t, w.Kafka.Start(context.Background()))
	writer.Run(40)
	runFor(t, env, func() {
		log := w.AwaitComplete(t, writer, kinds)
		wantLossSaid(t, log, topic, ConfigMaps)
		wantReplay(t, w, log, ConfigMaps)
	})
}

// join starts one more broker, which leads nothing at first.
func join(t *testing.T, k *servers.Kafka) *servers.Kafka {
	t.Helper()
	other, err := k.Join(context.Background())
	must(t, err)
	t.Cleanup(func() { _ = other.Stop() })
	return other
}

// moveTopic moves a topic to other brokers, any of which may become its leader.
func moveTopic(t *testing.T, w *World, topic string, brokers ...int32) {
	t.Helper()
	a, ctx, unclean := admin(t, w), context.Background(), "true"
	answers, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "unclean.leader.election.enable", Value: &unclean}}, topic)
	must(t, err)
	_, err = answers.On(topic, nil)
	must(t, err)
	var move kadm.AlterPartitionAssignmentsReq
	topics, err := a.ListTopics(ctx, topic)
	must(t, err)
	for p := range topics[topic].Partitions {
		move.Assign(topic, p, brokers)
	}
	moved, err := a.AlterPartitionAssignments(ctx, move)
	must(t, err)
	must(t, moved.Error())
	Await(t, "the topic to move", func() (bool, error) {
		topics, err := a.ListTopics(ctx, topic)
		for _, p := range topics[topic].Partitions {
			if len(p.Replicas) != len(brokers) || len(p.ISR) != len(brokers) {
				return false, err
			}
		}
		return err == nil, err
	})
}
