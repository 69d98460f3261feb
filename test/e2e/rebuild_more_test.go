package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/test/servers"
)

// The checkpoint's tables are emptied, and then dropped, under a running exporter. It creates them again, and rebuilds their
// contents.
func TestSlowACheckpointLostUnderARunningExporterIsRebuilt(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	w.Env["KUBECDC_SLOTS"] = "2"
	writer := w.Writer(t, Kinds).Fill(10)
	e := StartExporter(t, "an exporter", w.Env).AwaitReady(t)
	writer.Run(40)
	w.AwaitComplete(t, writer, Kinds)
	for i, loss := range []func(){func() { emptyCheckpoint(t, w) }, func() { dropCheckpoint(t, w) }} {
		loss()
		writer.Run(40)
		w.AwaitComplete(t, writer, Kinds)
		Await(t, "both slots' checkpoints to be rebuilt", func() (bool, error) { // maybe after the writes
			return strings.Count(e.Tail(1<<20), "the checkpoint is rebuilt") >= 2*(i+1), nil
		})
	}
	e.awaitLogged(t, "dropped or emptied while the exporter ran")
	e.stop(t)
	log := w.Read(t)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	wantNoGapButRecovered(t, log)
}

func emptyCheckpoint(t *testing.T, w *World) {
	t.Helper()
	servers.Exec(t, w.Postgres.URL, `truncate kubecdc.clusters cascade`)
}

// The checkpoint is lost together with a data topic, and then with the control topic. The other data topics are read back, so that
// deletions in the meantime are recorded. The log says what it does not know.
func TestSlowACheckpointLostWithATopicIsRebuiltFromTheOthers(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(10)
	runFor(t, w.Env, func() { writer.Run(40); w.AwaitComplete(t, writer, Kinds) })
	for _, topic := range []string{w.Prefix + "." + ConfigMaps.ID(), w.Prefix + ".control"} {
		dropCheckpoint(t, w)
		deleteTopics(t, w, topic)
		said := Kinds
		if topic != w.Prefix+".control" {
			said = []Kind{ConfigMaps}
		}
		writer.Run(40)
		runFor(t, w.Env, func() { writer.Run(50); w.AwaitComplete(t, writer, Kinds) })
		log := w.Read(t)
		WantState(t, w, log, Kinds...)
		for _, kind := range said {
			if !saysUnknown(log, kind) {
				t.Errorf("%s and the checkpoint are lost: no gap record says that it is not known how far %s was complete", topic, kind.ID())
			}
		}
	}
}

func saysUnknown(log *Log, kind Kind) bool {
	for _, c := range log.Controls {
		if c.Gap != nil && c.Stream == kind.Stream() && c.Gap.From == "0" && !c.Gap.Complete {
			return true
		}
	}
	return false
}

// Two clusters of one name start at the same moment, with an empty Kafka, so that neither can see the other's log before it writes.
// One of them is refused, and the other goes on, also after a restart.
func TestSlowTwoClustersOfOneNameThatComeAtOnce(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	other := servers.Lend(t)
	InstallWidgets(t, w.Kube.Config)
	InstallWidgets(t, other.Config)
	for round := range 3 {
		env := w.With("KUBECDC_KAFKA_TOPIC_PREFIX", fmt.Sprint(w.Prefix, "-twins", round), "KUBECDC_SLOTS", "2")
		var envs [2]map[string]string
		var both [2]*Exporter
		for i, kube := range []*servers.Kubernetes{w.Kube, other} {
			envs[i] = withSettings(withSettings(env, "KUBECONFIG", kube.Kubeconfig), "KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
			both[i] = StartExporter(t, fmt.Sprint("exporter ", i), envs[i])
		}
		refused, n := oneEnds(t, both, func() {})
		if code := refused.Wait(t); code != 2 {
			t.Errorf("round %d: the one that is refused exits with %d:\n%s", round, code, refused.Tail(1000))
		}
		refused.awaitLogged(t, "another cluster named", uidOf(t, w.Kube), uidOf(t, other))
		left := both[1-n]
		left.AwaitReady(t)
		left.Kill()
		restarted := StartExporter(t, "the other, restarted", envs[1-n]).AwaitReady(t)
		restarted.Kill()
	}
}

// A cluster's log began under its CA, since its uid could not be read. The right is granted, and the checkpoint lost: it is the
// same cluster. If both the right and the checkpoint are lost, the identity can't be decided, and the error says so.
func TestSlowTheLogKnowsBothIdentitiesOfItsCluster(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	a := newAccount(t, w.Kube)
	kinds := []Kind{ConfigMaps}
	env := w.With("KUBECONFIG", a.kubeconfig, "KUBECDC_RESOURCES", ConfigMaps.ID())
	writer := w.Writer(t, kinds)
	runFor(t, env, func() { writer.Run(50); w.AwaitComplete(t, writer, kinds) })
	dropCheckpoint(t, w)
	a.grant(true)
	writer.Run(50)
	runFor(t, env, func() { writer.Run(50); w.AwaitComplete(t, writer, kinds) })
	Judge(t, w.Kube, w.Read(t), w.Prefix, kinds).Demand(t, 0)

	dropCheckpoint(t, w)
	a.grant(false)
	e := StartExporter(t, "without right and checkpoint", env)
	if code := e.Wait(t); code != 2 {
		t.Errorf("the exit code is %d, want 2", code)
	}
	e.awaitLogged(t, "nobody can tell", uidOf(t, w.Kube), "grant get on namespace kube-system")
}
