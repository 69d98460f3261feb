package e2e

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// World is the real servers of one test, and the settings with which an exporter reaches them.
type World struct {
	Kube       *servers.Kubernetes
	Kafka      *servers.Kafka // nil if the log is in Postgres
	Postgres   *servers.Postgres
	Checkpoint *servers.Postgres // Postgres, or a separate server of the checkpoint
	File       string            // the log's file, or empty
	Mirror     string            // the mirror of the topics that is asked about the past, or empty
	Prefix     string
	Env        map[string]string
}

// NewWorld starts an API server and a database only for this test, which will break them. All tests share the broker. The topics
// are the test's own, and so is Proxied's proxy to the broker.
func NewWorld(t testing.TB) *World {
	t.Helper()
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	return w.toTopics(servers.SharedKafka(t), servers.UniqueName())
}

// toTopics puts the log into topics of that prefix.
func (w *World) toTopics(broker *servers.Kafka, prefix string) *World {
	w.Kafka, w.Prefix = broker, prefix
	w.Env = w.With("KUBECDC_SINK", "kafka", "KUBECDC_KAFKA_BROKERS", strings.Join(broker.Brokers, ","),
		"KUBECDC_KAFKA_TOPIC_PREFIX", prefix, "KUBECDC_KAFKA_PARTITIONS", "3")
	return w
}

// NewPostgresWorld starts servers only for this test, without Kafka. The log and the checkpoint are in one database.
func NewPostgresWorld(t testing.TB, postgres servers.PostgresOptions) *World {
	t.Helper()
	return postgresWorld(t, servers.Lend(t), postgres)
}

func postgresWorld(t testing.TB, kube *servers.Kubernetes, postgres servers.PostgresOptions) *World {
	t.Helper()
	w := &World{Prefix: "e2e", Kube: kube, Postgres: servers.OwnPostgres(t, postgres)}
	w.Checkpoint = w.Postgres
	w.Env = withSettings(settingsFor(kube), "KUBECDC_SINK", "postgres", "KUBECDC_SINK_POSTGRES", w.Postgres.URL, "KUBECDC_CHECKPOINT", w.Postgres.URL)
	return w
}

// settingsFor returns the settings that all exporters have, for any log.
func settingsFor(kube *servers.Kubernetes) map[string]string {
	return map[string]string{"KUBECONFIG": kube.Kubeconfig, "KUBECDC_CLUSTER": Cluster, "KUBECDC_RESOURCES": Resources(Kinds),
		"KUBECDC_LEASE_DURATION": lease.String(), "KUBECDC_WATERMARK_INTERVAL": "1s", "KUBECDC_PAGE_SIZE": "50",
		"KUBECDC_SECRETS": "plain"} // the judge compares with the cluster's objects
}

// Cluster is the cluster's name in the logs.
const Cluster = "e2e"

// lease is short enough for a test to wait until a dead replica is replaced. It is long enough for a live one to renew it on a busy
// machine.
const lease = 5 * time.Second

// Writer returns a writer of random changes in the world's cluster, and installs the widgets that it writes. The test's log has the
// seed.
func (w *World) Writer(t testing.TB, kinds []Kind) *Writer {
	t.Helper()
	if slices.Contains(kinds, Widgets) {
		InstallWidgets(t, w.Kube.Config)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return NewWriter(t, w.Kube.Config, seed, kinds)
}

// Read reads the log, wherever the world has it.
func (w *World) Read(t testing.TB) *Log {
	t.Helper()
	if w.File != "" {
		return w.ReadFile(t)
	}
	if w.Kafka == nil {
		return ReadTables(t, w.Postgres.URL, w.Prefix)
	}
	return ReadLog(t, w.Kafka.Brokers, w.Prefix)
}

// With returns the environment with some settings changed.
func (w *World) With(pairs ...string) map[string]string { return withSettings(w.Env, pairs...) }

func withSettings(env map[string]string, pairs ...string) map[string]string {
	env = maps.Clone(env)
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// AwaitComplete makes a last change of each kind, and waits until the log is complete up to these changes.
func (w *World) AwaitComplete(t testing.TB, writer *Writer, kinds []Kind) *Log {
	t.Helper()
	return w.awaitMarks(t, writer.Marks(kinds))
}

// Marks makes a last change of each kind, and returns their versions.
func (w *Writer) Marks(kinds []Kind) map[change.StreamID]change.ResourceVersion {
	made := map[change.StreamID]change.ResourceVersion{}
	for _, kind := range kinds {
		made[kind.Stream()] = w.mark(kind)
	}
	return made
}

func (w *World) awaitMarks(t testing.TB, want map[change.StreamID]change.ResourceVersion) *Log {
	t.Helper()
	w.AwaitMarks(t, want)
	return w.Read(t)
}

// AwaitMarks waits until the log is complete up to these versions.
func (w *World) AwaitMarks(t testing.TB, want map[change.StreamID]change.ResourceVersion) {
	t.Helper()
	left := maps.Clone(want)
	reach := func(positions []change.Position) (all bool) {
		for _, p := range positions {
			if version, ok := left[p.Stream]; ok && p.ResourceVersion.Compare(version) >= 0 {
				delete(left, p.Stream)
			}
		}
		return len(left) == 0
	}
	Await(t, "the log to be complete", func() (bool, error) {
		if w.File != "" {
			for _, c := range w.fileControls(t) {
				if reach(c.Positions) {
					return true, nil
				}
			}
			return false, nil
		}
		if w.Kafka == nil {
			return reach(batchPositions(t, w.Postgres.URL)), nil
		}
		return followControls(t, w.Kafka.Brokers, w.Prefix, func(c change.Control) bool { return reach(c.Positions) }), nil
	})
	if w.Kafka != nil {
		AwaitMarkers(t, w.Kafka.Brokers, w.Prefix)
	}
}
