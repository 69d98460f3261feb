package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// NewBrokerWorld also starts a broker only for this test. It starts concurrently, since that takes long.
func NewBrokerWorld(t testing.TB, kafka servers.KafkaOptions) *World {
	t.Helper()
	var broker *servers.Kafka
	var failed error
	started := make(chan struct{})
	go func() {
		defer close(started)
		broker, failed = servers.StartKafka(context.Background(), kafka)
	}()
	t.Cleanup(func() {
		if <-started; broker != nil {
			_ = broker.Stop()
		}
	})
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	<-started
	must(t, failed)
	return w.toTopics(broker, w.Prefix)
}

// NewFragileWorld is NewWorld with a broker that the test may kill.
func NewFragileWorld(t testing.TB) *World {
	t.Helper()
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	return w.toTopics(servers.LendKafka(t), servers.UniqueName())
}

// NewFileWorld starts a cluster only for this test. The log and the checkpoint are in one file.
func NewFileWorld(t testing.TB) *World {
	t.Helper()
	w := &World{Prefix: "e2e", Kube: servers.Lend(t), File: filepath.Join(t.TempDir(), "log.db")}
	w.Env = withSettings(settingsFor(w.Kube), "KUBECDC_SINK", "sqlite", "KUBECDC_CHECKPOINT", "sqlite:"+w.File)
	return w
}

// separateCheckpoint gives the checkpoint its own server.
func (w *World) separateCheckpoint(t testing.TB) {
	t.Helper()
	w.Checkpoint = servers.OwnPostgres(t, servers.PostgresOptions{})
	w.Env["KUBECDC_CHECKPOINT"] = w.Checkpoint.URL
}

// anotherCluster starts a cluster with the same certificates and tokens as the world's, so that the same clients can read it.
func (w *World) anotherCluster(t testing.TB) *servers.Kubernetes {
	t.Helper()
	k, err := servers.StartKubernetes(context.Background(), servers.KubernetesOptions{SameAccess: w.Kube})
	must(t, err)
	t.Cleanup(func() { _ = k.Stop() })
	return k
}

// Proxied puts proxies between an exporter and each of its servers. They are "api", "postgres" (the checkpoint), and "kafka" or
// "sink" (the log).
func (w *World) Proxied(t testing.TB) (proxies map[string]*servers.Proxy, env map[string]string) {
	t.Helper()
	proxies = map[string]*servers.Proxy{}
	targets := map[string]string{"api": w.Kube.Address, "postgres": w.Checkpoint.Address}
	if w.Kafka != nil {
		proxies["kafka"] = w.Kafka.Lane(t)
	} else {
		targets["sink"] = w.Postgres.Address
	}
	for name, target := range targets {
		p, err := servers.NewProxy(target)
		must(t, err)
		t.Cleanup(func() { p.Close() })
		proxies[name] = p
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, w.Kube.WriteKubeconfig(kubeconfig, proxies["api"].Address, ""))
	env = w.With("KUBECONFIG", kubeconfig, "KUBECDC_CHECKPOINT", w.Checkpoint.URLAt(proxies["postgres"].Address, "kubecdc"))
	if w.Kafka != nil {
		return proxies, withSettings(env, "KUBECDC_KAFKA_BROKERS", proxies["kafka"].Address)
	}
	return proxies, withSettings(env, "KUBECDC_SINK_POSTGRES", w.Postgres.URLAt(proxies["sink"].Address, "kubecdc"))
}

func (w *World) controls(t testing.TB) []change.Control {
	t.Helper()
	if w.File != "" {
		return w.fileControls(t)
	}
	if w.Kafka == nil {
		return readTables(t, w.Postgres.URL, readControls).Controls
	}
	return ReadControls(t, w.Kafka.Brokers, w.Prefix)
}

// overtake writes until the cluster's revision is above the other one's.
func (w *Writer) overtake(other, own *servers.Kubernetes) {
	limit, err := other.Revision(context.Background())
	must(w.t, err)
	for revision := int64(0); revision <= limit; {
		w.Run(20)
		revision, err = own.Revision(context.Background())
		must(w.t, err)
	}
}
