package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/errgroup"

	"kubecdc/test/exporter"
	"kubecdc/test/servers"
)

// stack is a cluster, a broker and a database, between which the exporter runs, and the exporter's binary.
type stack struct {
	screen *screen
	kube   *servers.Kubernetes
	kafka  *servers.Kafka    // nil: fake
	fake   *kfake.Cluster    // nil: kafka
	sql    *servers.Postgres // nil: SQLite

	brokers    string
	checkpoint string // as KUBECDC_CHECKPOINT
	binary     string // the exporter's

	noKafka, noPostgres string // why there is a fallback; empty: there is none
}

// installStack installs missing servers, and returns which ones will be used.
func installStack(ctx context.Context, s *screen) (*stack, error) {
	dir, err := servers.Dir()
	if err != nil {
		return nil, err
	}
	if err := keepTemporariesIn(filepath.Join(dir, "tmp")); err != nil {
		return nil, err
	}
	missing, err := servers.Install(ctx, func(line string) { s.remark("%s", line) }, servers.PostgresPart, servers.KafkaPart, servers.KubernetesPart)
	if err != nil {
		return nil, fmt.Errorf("install the servers: %w", err)
	}
	k := &stack{screen: s, binary: filepath.Join(dir, "demo-exporter"), noKafka: missing[servers.KafkaPart], noPostgres: missing[servers.PostgresPart]}
	if os.Getenv("DEMO_KAFKA") == "fake" {
		k.noKafka = "DEMO_KAFKA=fake"
	}
	if os.Getenv("DEMO_CHECKPOINT") == "sqlite" {
		k.noPostgres = "DEMO_CHECKPOINT=sqlite"
	}
	k.announce()
	return k, nil
}

// keepTemporariesIn has this process and all that it starts leave nothing behind elsewhere.
func keepTemporariesIn(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return os.Setenv("TMPDIR", dir)
}

// announce prints which servers are real and which are substitutes.
func (k *stack) announce() {
	real := []string{"kube-apiserver", "etcd"}
	if k.noKafka == "" {
		real = append(real, "Apache Kafka")
	}
	if k.noPostgres == "" {
		real = append(real, "Postgres")
	}
	last := len(real) - 1
	list := strings.Join(real[:last], ", ") + " and " + real[last]
	k.screen.say("Real servers on this machine, on free ports, ended with the demo: %s.", list)
	if k.noKafka != "" {
		k.screen.warn("In place of Kafka: an in-process broker (franz-go's kfake). Why: %s", k.noKafka)
	}
	if k.noPostgres != "" {
		k.screen.warn("In place of Postgres: the SQLite checkpoint. Why: %s", k.noPostgres)
	}
}

// start starts all of it at once and builds the exporter. Once the cluster is up, fill puts objects in it while the others still start.
func (k *stack) start(ctx context.Context, fill func(context.Context) error) error {
	defer k.screen.wait("the servers to start")()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := k.startKube(ctx); err != nil {
			return err
		}
		return fill(ctx)
	})
	group.Go(func() error { return k.startBroker(ctx) })
	group.Go(func() error { return k.startCheckpoint(ctx) })
	group.Go(func() error {
		began := time.Now()
		if err := exporter.Build(ctx, k.binary); err != nil {
			return err
		}
		k.up(began, "exporter", "built from this checkout", "go build ./cmd/exporter")
		return nil
	})
	return group.Wait()
}

// up prints that a server is ready.
func (k *stack) up(began time.Time, name, what, where string) {
	k.screen.print(fmt.Sprintf("   %s %-11s %-38s %6s  %s", k.screen.paint(green, "✓"), name, what, took(time.Since(began)),
		k.screen.paint(dim, where)))
}

func (k *stack) startKube(ctx context.Context) (err error) {
	began := time.Now()
	if k.kube, err = servers.StartKubernetes(ctx, servers.KubernetesOptions{}); err != nil {
		return err
	}
	k.up(began, "Kubernetes", kubeVersion(ctx, k.kube), k.kube.API.URL)
	return nil
}

func (k *stack) startBroker(ctx context.Context) (err error) {
	began := time.Now()
	if k.noKafka != "" {
		if k.fake, err = kfake.NewCluster(kfake.NumBrokers(1)); err != nil {
			return fmt.Errorf("start the in-process broker: %w", err)
		}
		k.brokers = k.fake.ListenAddrs()[0]
		k.up(began, "broker", "in-process, no Kafka", k.brokers)
		return nil
	}
	if k.kafka, err = servers.StartKafka(ctx, servers.KafkaOptions{}); err != nil {
		return err
	}
	k.brokers = strings.Join(k.kafka.Brokers, ",")
	k.up(began, "Kafka", kafkaVersion(k.kafka), k.brokers)
	return nil
}

func (k *stack) startCheckpoint(ctx context.Context) (err error) {
	if k.noPostgres != "" {
		return nil
	}
	began := time.Now()
	if k.sql, err = servers.StartPostgres(ctx, servers.PostgresOptions{Fsync: true}); err != nil {
		return err
	}
	k.checkpoint = k.sql.URL
	k.up(began, "Postgres", postgresVersion(ctx, k.sql.URL), k.sql.Address)
	return nil
}

// folder is where the exporter's log and an SQLite checkpoint are: it goes with the cluster.
func (k *stack) folder() string { return k.kube.Dir }

// checkpointURL is the setting that the exporter gets.
func (k *stack) checkpointURL() string {
	if k.sql == nil {
		return "sqlite:" + filepath.Join(k.folder(), "checkpoint.db")
	}
	return k.checkpoint
}

// stop ends every server.
func (k *stack) stop() error {
	if k.fake != nil {
		k.fake.Close()
	}
	if err := servers.StopAll(); err != nil {
		return errors.Join(errors.New("not every server has ended as it should"), err)
	}
	return nil
}
