package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// NewRuledWorld is NewWorld with a broker that grants the rights in docs/security.md, except Read.
func NewRuledWorld(t testing.TB) *World {
	t.Helper()
	w := NewBrokerWorld(t, servers.KafkaOptions{SASL: true, ACLs: true})
	w.grant(t, kadm.OpCreate, kadm.OpWrite, kadm.OpDescribeConfigs)
	must(t, w.Kafka.Rule(context.Background(),
		servers.KafkaRule{Transactional: w.Prefix + "-", Prefixed: true, Operations: []kadm.ACLOperation{kadm.OpWrite}}))
	w.Env = w.With("KUBECDC_KAFKA_BROKERS", strings.Join(w.Kafka.SASLBrokers, ","), "KUBECDC_KAFKA_SASL_MECHANISM", "PLAIN",
		"KUBECDC_KAFKA_SASL_USERNAME", servers.KafkaUser, "KUBECDC_KAFKA_SASL_PASSWORD", servers.KafkaPassword)
	return w
}

func (w *World) grant(t testing.TB, ops ...kadm.ACLOperation) {
	t.Helper()
	must(t, w.Kafka.Rule(context.Background(), servers.KafkaRule{Topic: w.Prefix + ".", Prefixed: true, Operations: ops}))
}

// The broker refuses the topics of two resources: one may not be created, and the limit of the other is below a stub's size. Their
// streams wait, in another process too, and the others go on. The same holds for a topic that may not be written any more, and for
// one that may not be seen. When this is mended the streams catch up, and nothing is lost or written twice.
func TestSlowOnlyTheStreamsOfARefusedTopicWait(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	well, refused, all := []Kind{Deployments, Roles}, []Kind{ConfigMaps, Secrets}, []Kind{Deployments, Roles, ConfigMaps, Secrets}
	w, ctx := NewRuledWorld(t), context.Background()
	w.Env = w.With("KUBECDC_RESOURCES", Resources(all))
	readingIsMissed(t, w)
	forbid := func(ops ...kadm.ACLOperation) servers.KafkaRule {
		return servers.KafkaRule{Topic: w.Prefix + "." + ConfigMaps.ID(), Deny: true, Operations: ops}
	}
	must(t, w.Kafka.Rule(ctx, forbid(kadm.OpCreate)))
	small := w.Prefix + "." + Secrets.ID()
	limitTopic(t, w, small, "100")

	writer := w.Writer(t, all)
	writer.Run(40)
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	e.awaitWrong(t, "stream configmaps: prepare topic e2e.configmaps: create: ", "Topic Authorization Failed", "grant")
	e.awaitWrong(t, "stream secrets: write ", "stub", "raise max.message.bytes")
	writer.Run(40)
	w.AwaitComplete(t, writer, well)
	e.awaitMetric(t, "kubecdc_stream_state", `state="refused"`, 2)
	e.AwaitReady(t)

	e = e.restart(t, w)
	e.awaitWrong(t, "stream configmaps: ", "grant")
	e.awaitWrong(t, "stream secrets: ", "raise max.message.bytes")
	writer.Run(40)
	must(t, w.Kafka.Unrule(ctx, forbid(kadm.OpCreate)))
	limitTopic(t, w, small, "1000000")
	e.awaitWell(t, "two topics were refused")
	w.AwaitComplete(t, writer, all)

	for _, ops := range [][]kadm.ACLOperation{{kadm.OpWrite}, {kadm.OpDescribe, kadm.OpRead, kadm.OpWrite}} {
		must(t, w.Kafka.Rule(ctx, forbid(ops...)))
		writer.Run(40)
		e.awaitWrong(t, "stream configmaps: ", "Topic Authorization Failed", "grant")
		w.AwaitComplete(t, writer, well)
		e = e.restart(t, w)
		writer.Run(40)
		e.awaitWrong(t, "stream configmaps: ", "grant")
		must(t, w.Kafka.Unrule(ctx, forbid(ops...)))
		e.awaitWell(t, "a topic was refused")
	}
	unreadTail(t, w, e, writer, forbid(kadm.OpRead))
	log := w.AwaitComplete(t, writer, all)
	for _, kind := range refused {
		counts := map[change.ControlType]int{}
		for _, c := range log.Controls {
			if c.Stream == kind.Stream() {
				counts[c.Type]++
			}
		}
		if counts[change.ControlStreamError] == 0 || counts[change.ControlStreamRecovered] == 0 || counts[change.ControlGap] > 0 {
			t.Errorf("control records of %s: %v", kind.ID(), counts)
		}
	}
	Judge(t, w.Kube, log, w.Prefix, all).Demand(t, 0)
}

// unreadTail kills the exporter when a batch is in the log and not yet in the checkpoint. Records of the batch are in a topic that
// may not be read any more. Their changes are unknown, so the slot waits and says why, until the topic can be read.
func unreadTail(t *testing.T, w *World, e *Exporter, writer *Writer, rule servers.KafkaRule) {
	t.Helper()
	e.Signal(syscall.SIGTERM)
	e.Wait(t)
	writer.mark(ConfigMaps)
	e = StartExporter(t, "one that is killed", withSettings(w.Env, "KUBECDC_FAILPOINT", failpoint.Written+":1"))
	e.Wait(t)
	must(t, w.Kafka.Rule(context.Background(), rule))
	writer.Run(20)
	e = StartExporter(t, "the one after it", w.Env)
	e.awaitWrong(t, "sink: slot 0: ", "read back e2e.configmaps", "grant")
	must(t, w.Kafka.Unrule(context.Background(), rule))
	e.awaitWell(t, "a tail could not be read")
	e.awaitLogged(t, "rolled the checkpoint forward")
}

// readingIsMissed demands that check and the first start report a missing right before anything is written, although only the next
// start needs it. Both must succeed when it is granted.
func readingIsMissed(t *testing.T, w *World) {
	t.Helper()
	demand := func(want int, texts ...string) {
		t.Helper()
		code, out := command(t, w.Env, "check")
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("check does not say %q", text)
			}
		}
		if t.Logf("check exits with %d:\n%s", code, out); code != want {
			t.Fatalf("check exits with %d, want %d", code, want)
		}
	}
	command := "kafka-acls.sh --bootstrap-server " + w.Kafka.SASLBrokers[0] +
		" --add --allow-principal 'User:kubecdc' --operation Read --topic 'e2e.' --resource-pattern-type prefixed"
	demand(1, "read, which each start needs, e2e.configmaps, e2e.control, e2e.dead-letter, ", "grant Read on topics e2e.*", command)
	e := StartExporter(t, "one that may not read", w.Env)
	e.awaitWrong(t, "sink: slot 0: ", "read topic e2e.control: ", "grant")
	e.Kill()
	demand(1, "read, which each start needs, e2e.configmaps, e2e.control, ", command) // this topic exists now
	w.grant(t, kadm.OpRead)
	demand(0, "sink")
}

func (e *Exporter) restart(t testing.TB, w *World) *Exporter {
	t.Helper()
	e.stop(t)
	return StartExporter(t, "the next exporter", w.Env)
}

// limitTopic sets max.message.bytes of a topic, and creates the topic if necessary.
func limitTopic(t *testing.T, w *World, topic, limit string) {
	t.Helper()
	a := admin(t, w)
	if made, err := a.CreateTopic(context.Background(), 3, 1, map[string]*string{"max.message.bytes": &limit}, topic); made.Err == nil {
		must(t, err)
		return
	}
	_, err := a.AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}, topic)
	must(t, err)
}
