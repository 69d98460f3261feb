package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Topics are deleted while the exporter is down: one of them, then all, the control topic too. The log says so, and the topics
// replay into the cluster's state again. Topics that were not deleted go on undisturbed.
func TestDeletedTopicsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(10)
	env := w.With("KUBECDC_SLOTS", "2")
	runFor(t, env, func() { writer.Run(40) })

	lost := w.Prefix + "." + ConfigMaps.ID()
	deleteTopics(t, w, lost)
	writer.Run(40)
	runFor(t, env, func() {
		writer.Run(40)
		w.AwaitComplete(t, writer, Kinds)
	})
	log := ReadLog(t, w.Kafka.Brokers, w.Prefix)
	wantLossSaid(t, log, lost, ConfigMaps)
	Judge(t, w.Kube, log, w.Prefix, []Kind{Secrets, Deployments, Roles, Widgets}).Demand(t, 0)
	wantReplay(t, w, log, ConfigMaps)

	writer.Run(40)
	deleteTopics(t, w, topicsOf(t, w)...)
	writer.Run(40)
	runFor(t, env, func() {
		writer.Run(40)
		w.AwaitComplete(t, writer, Kinds)
	})
	log = ReadLog(t, w.Kafka.Brokers, w.Prefix) // the topics are created meanwhile
	wantLossSaid(t, log, w.Prefix+".control", Kinds...)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0) // as a new log, from the second snapshot on
}

// Topics are deleted and created again, with as many partitions or more. This happens under an exporter that has nothing to write,
// or much, and while none runs. The exporter says so, and each object is in its topic again.
func TestSlowTopicsThatAreMadeAgainAreWrittenAgain(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(10)
	env := w.With("KUBECDC_SLOTS", "2")
	a := admin(t, w)
	topic := func(kind Kind) string { return w.Prefix + "." + kind.ID() }
	runFor(t, env, func() {
		writer.Run(40)
		w.AwaitComplete(t, writer, Kinds)
		for kind, partitions := range map[Kind]int32{Secrets: 3, ConfigMaps: 5} { // quiet
			remakeTopic(t, a, topic(kind), partitions)
			awaitControls(t, w, 2, kind.Stream(), change.ControlSnapshotEnd)
		}
		stop := writer.Start(50)
		for kind, partitions := range map[Kind]int32{Deployments: 3, Roles: 5} {
			remakeTopic(t, a, topic(kind), partitions)
			awaitControls(t, w, 2, kind.Stream(), change.ControlSnapshotEnd)
		}
		stop()
	})
	remakeTopic(t, a, topic(Widgets), 5)
	runFor(t, env, func() {
		awaitControls(t, w, 2, Widgets.Stream(), change.ControlSnapshotEnd)
		w.AwaitComplete(t, writer, Kinds)
		log := w.Read(t)
		for _, kind := range Kinds {
			wantLossSaid(t, log, topic(kind), kind)
		}
		Judge(t, w.Kube, log.SinceLastSnapshot(w.Prefix, Kinds), w.Prefix, Kinds).Demand(t, 0)
		remakeTopic(t, a, w.Prefix+".control", 3)
		for _, kind := range Kinds {
			awaitControls(t, w, 1, kind.Stream(), change.ControlGap)
		}
		w.AwaitComplete(t, writer, Kinds)
	})
	WantState(t, w, w.Read(t), Kinds...)
}

// The address of the brokers leads to another Kafka from a moment on. The exporter ends as at a start, and names both.
func TestAnAddressThatLeadsToAnotherKafkaEndsTheExporter(t *testing.T) {
	t.Parallel()
	w, other := NewWorld(t), servers.LendKafka(t)
	proxies, env := w.Proxied(t)
	env["KUBECDC_RESOURCES"] = Resources([]Kind{ConfigMaps})
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	proxies["kafka"].Retarget(other.Brokers[0])
	proxies["kafka"].Drop()
	if code := e.Wait(t); code != 2 {
		t.Errorf("the exit code is %d", code)
	}
	e.awaitLogged(t, w.Kafka.ClusterID, other.ClusterID)
	w.Kafka = other
	if names := topicsOf(t, w); len(names) > 0 {
		t.Errorf("the other Kafka has topics now: %v", names)
	}
}

// A name that is too long for Kafka is cut, and marked with a hash, so that the resource can't be read from it. The loss of the
// topic is reported all the same, and all objects are written again.
func TestSlowADeletedTopicOfAHashedNameIsWrittenAgain(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	long := strings.Repeat("l"+strings.Repeat("o", 50)+"ng.", 3) + "example.com"
	gadgets := customKind(long, "v1", "widgets")
	installCRD(t, w.Kube.Config, gadgets)
	w.Prefix = strings.Repeat("p", 100)
	lost := change.Topic(w.Prefix, change.Resource{Group: long, Plural: "widgets"})
	if strings.HasSuffix(lost, "example.com") {
		t.Fatalf("the topic is %s, which has no hash", lost)
	}
	api := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(gadgets.GVR).Namespace("default")
	for i := range 10 {
		_, err := api.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": long + "/v1", "kind": "Widget",
			"metadata": map[string]any{"name": fmt.Sprint("n", i)}}}, metav1.CreateOptions{})
		must(t, err)
	}
	kinds := []Kind{ConfigMaps}
	writer := w.Writer(t, kinds)
	env := w.With("KUBECDC_KAFKA_TOPIC_PREFIX", w.Prefix, "KUBECDC_RESOURCES", Resources([]Kind{ConfigMaps, gadgets}))
	runFor(t, env, func() { w.AwaitComplete(t, writer, kinds) })
	deleteTopics(t, w, lost)
	runFor(t, env, func() { awaitControls(t, w, 2, gadgets.Stream(), change.ControlSnapshotEnd) })
	log := w.Read(t)
	wantLossSaid(t, log, lost, gadgets)
	read := map[string]bool{}
	for _, r := range log.Records {
		read[r.Key] = read[r.Key] || r.Topic == lost && r.Op == "r"
	}
	for i := range 10 {
		if key := fmt.Sprint("default/n", i); !read[key] {
			t.Errorf("%s is not in the topic that was made anew", key)
		}
	}
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
}

// runFor runs an exporter while do is done.
func runFor(t *testing.T, env map[string]string, do func()) {
	t.Helper()
	e := StartExporter(t, "an exporter", env).AwaitReady(t)
	do()
	e.stop(t)
}

func admin(t *testing.T, w *World) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func topicsOf(t *testing.T, w *World) (names []string) {
	t.Helper()
	topics, err := admin(t, w).ListTopics(context.Background())
	must(t, err)
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, w.Prefix+".") {
			names = append(names, name)
		}
	}
	return names
}

func deleteTopics(t *testing.T, w *World, names ...string) {
	t.Helper()
	a := admin(t, w)
	answers, err := a.DeleteTopics(context.Background(), names...)
	must(t, err)
	if err := answers.Error(); !errors.Is(err, kerr.UnknownTopicOrPartition) { // an answer was late, and the client has asked again
		must(t, err)
	}
	Await(t, "the topics to be gone", func() (bool, error) {
		topics, err := a.ListTopics(context.Background())
		for _, name := range names {
			if topics.Has(name) {
				return false, err
			}
		}
		return true, err
	})
}

// wantLossSaid demands a gap record for each kind that names the topic.
func wantLossSaid(t *testing.T, log *Log, topic string, kinds ...Kind) {
	t.Helper()
	for _, kind := range kinds {
		said := false
		for _, c := range log.Controls {
			said = said || c.Type == change.ControlGap && c.Stream == kind.Stream() && c.Gap.From == "0" && !c.Gap.Complete && strings.Contains(c.Cause, topic)
		}
		if !said {
			t.Errorf("no gap record says that %s was lost with %s", kind.ID(), topic)
		}
	}
}

// wantReplay demands that a topic that begins with a snapshot holds every object once, with all later changes.
func wantReplay(t *testing.T, w *World, log *Log, kind Kind) {
	t.Helper()
	v := w.state(t, log, kind)
	for key, records := range log.ByKey(w.Prefix, kind) {
		v.InOrder(kind, key, records)
		if op := records[0].Op; op != "r" && op != "c" && op != "d" {
			t.Errorf("the first record of %s is %q", key, op)
		}
	}
	v.Demand(t, 0)
}
