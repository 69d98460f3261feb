package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/test/servers"
)

// One exporter process survives each kind of trouble of Kafka, one after another. Each is named in the log, in /readyz and in the
// metrics, and ends without a restart when it is mended. In the end nothing is lost. (One broker can't have too few replicas: see
// sinks/kafka. For missing rights see refused_test.go.)
func TestSlowKafkaInTrouble(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	kinds := []Kind{ConfigMaps, Secrets}
	w := NewWorld(t)
	const bufferBytes = 1 << 20
	lane := w.Kafka.Lane(t)
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds),
		"KUBECDC_LEASE_DURATION", "10m", // a session that ends while the broker is away is followed by a session that reads nothing
		"KUBECDC_KAFKA_BROKERS", lane.Address, "KUBECDC_SPOOL_SIZE", "off",
		"KUBECDC_BUFFER_CHANGES", "200", "KUBECDC_BUFFER_BYTES", "1MiB", "KUBECDC_BATCH_MAX_CHANGES", "100", "KUBECDC_BATCH_MAX_BYTES", "512KiB")
	writer, a := w.Writer(t, kinds), admin(t, w)
	writer.Fill(20)
	writer.Run(50)
	e := StartExporter(t, "the one", w.Env).AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	configMaps := w.Prefix + "." + ConfigMaps.ID()

	brokerAway(t, w, lane, e, bufferBytes)
	partitionsAdded(t, w, e, writer, a, configMaps)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)

	// A restart reads the topics' partitions again. No object may move.
	e.stop(t)
	e = StartExporter(t, "the next", w.Env).AwaitReady(t)
	writer.Run(50)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.awaitLogged(t, "partitions were added to a topic", configMaps)

	topicDeleted(t, w, e, writer, kinds, a)
}

// brokerAway makes the broker refuse connections while 3,000 changes of 10 KB are made. They wait in the watch, not in memory.
func brokerAway(t *testing.T, w *World, broker *servers.Proxy, e *Exporter, bufferBytes float64) {
	t.Helper()
	before := e.PeakMemory(t)
	broker.Cut()
	stopped := time.Now()
	flood(t, w.Kube.Config, 3000, 10_000)
	flooded := time.Since(stopped)
	e.awaitWrong(t, "sink: ", "check that the brokers run")
	e.awaitMetric(t, "kubecdc_buffer_bytes", "", bufferBytes*3/4) // it is full
	items, bytes := e.Metric(t, "kubecdc_buffer_changes", ""), e.Metric(t, "kubecdc_buffer_bytes", "")
	if bytes > bufferBytes {
		t.Errorf("%v bytes are buffered", bytes)
	}
	e.awaitLogged(t, "a request to Kafka does not succeed", "check that the brokers run")
	must(t, broker.Restore())
	started := time.Now()
	e.awaitWell(t, "the broker was away")
	after := e.PeakMemory(t)
	t.Logf("the broker was away: 3,000 changes (30 MB) in %.1fs; %v items, %.0f KB buffered; peak memory %d MB before, %d MB after; well %.1fs after it was back",
		flooded.Seconds(), items, bytes/1e3, before>>20, after>>20, time.Since(started).Seconds())
	if grown := after - before; grown > 40<<20 {
		t.Errorf("memory grew by %d MB", grown>>20)
	}
}

// partitionsAdded grows a topic. All objects, old and new ones, use the partitions that existed before.
func partitionsAdded(t *testing.T, w *World, e *Exporter, writer *Writer, a *kadm.Client, topic string) {
	t.Helper()
	answers, err := a.CreatePartitions(context.Background(), 4, topic)
	must(t, err)
	must(t, answers.Error())
	writer.Run(60)
	e.awaitWell(t, "partitions were added")
	for _, r := range w.Read(t).Records {
		if r.Topic == topic && r.Partition > 2 {
			t.Fatalf("%s stands in partition %d", r.Key, r.Partition)
		}
	}
}

// topicDeleted deletes a topic under the exporter, which says so, creates it anew and writes all objects to it again.
func topicDeleted(t *testing.T, w *World, e *Exporter, writer *Writer, kinds []Kind, a *kadm.Client) {
	t.Helper()
	topic := w.Prefix + "." + Secrets.ID()
	answers, err := a.DeleteTopics(context.Background(), topic)
	must(t, err)
	must(t, answers.Error())
	started := time.Now()
	writer.Run(60)
	w.AwaitComplete(t, writer, kinds)
	e.awaitWell(t, "a topic was deleted")
	e.awaitLogged(t, topic, "the topic does not exist")
	t.Logf("a topic was deleted: made anew and complete after %.1fs", time.Since(started).Seconds())
	log := w.Read(t)
	wantLossSaid(t, log, topic, Secrets)
	wantReplay(t, w, log, Secrets)
	Judge(t, w.Kube, log, w.Prefix, []Kind{ConfigMaps}).Demand(t, 0)
}
