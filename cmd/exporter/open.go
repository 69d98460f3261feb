package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/kubelease"
	"kubecdc/checkpoint/postgres"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/config"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	sinkpostgres "kubecdc/sinks/postgres"
	"kubecdc/sinks/stdout"
)

// openStore opens the checkpoint, and says where it is in words that may be shown.
func openStore(ctx context.Context, start *startup.Steps, c *config.Config, cluster *target) (_ checkpoint.Store, where string, _ error) {
	path, err := c.SQLitePath(cluster.Cluster)
	if err != nil {
		return nil, "", err
	}
	step := startup.Step{For: "the checkpoint", At: c.Checkpoint.Location.String(), Limit: openLimit}
	if path != "" {
		step.At, step.Limit = "sqlite:"+path, 0 // one that was written by an older release is written anew
	}
	var store checkpoint.Store // not to be touched after an error: an attempt may outlive Do
	err = start.Do(ctx, step, func(ctx context.Context) (err error) {
		store, err = openStoreAt(ctx, c, path)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return store, step.At, nil
}

// openStoreAt opens the SQLite file at path, or the Postgres database where that is empty.
func openStoreAt(ctx context.Context, c *config.Config, path string) (checkpoint.Store, error) {
	if path != "" {
		return sqlite.Open(ctx, path)
	}
	// What Postgres forgets in a crash, Kafka's log tells again.
	return postgres.Open(ctx, postgres.Config{URL: c.Checkpoint.Location.Reveal(),
		PasswordFile: c.Checkpoint.PasswordFile, Relaxed: c.Sink.Kind == "kafka"})
}

// openLeases prepares where replicas agree on who owns which slot.
func openLeases(c *config.Config, cluster *target, store checkpoint.Store) (checkpoint.Leases, error) {
	if c.Slots.Leases != "kubernetes" {
		return store, nil
	}
	namespace := c.Slots.Namespace
	if own, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); namespace == "" && err == nil {
		namespace = strings.TrimSpace(string(own))
	}
	if namespace == "" {
		namespace = "default"
	}
	return kubelease.New(cluster.REST, namespace, cluster.Cluster, store)
}

// sinkHelp is what a sink may use of the rest.
type sinkHelp struct {
	log   *slog.Logger
	watch sinks.Observer
	pin   kafka.Pin
}

// openSink prepares the destination.
func openSink(ctx context.Context, start *startup.Steps, c *config.Config, cluster *target, help sinkHelp) (sinks.Sink, error) {
	step := startup.Step{For: "the sink", At: sinkAddress(c), Limit: openLimit}
	var sink sinks.Sink
	err := start.Do(ctx, step, func(ctx context.Context) (err error) {
		sink, err = openSinkOf(ctx, c, cluster, help)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sink, nil
}

func openSinkOf(ctx context.Context, c *config.Config, cluster *target, help sinkHelp) (sinks.Sink, error) {
	switch c.Sink.Kind {
	case "kafka":
		return openKafka(c, cluster, help)
	case "stdout":
		return stdout.New(stdout.Options{Envelope: change.Envelope{Version: versionText(), Prefix: c.Kafka.TopicPrefix, Cluster: cluster.Cluster}}), nil
	}
	return sinkpostgres.Open(ctx, sinkpostgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile, Cluster: cluster.Cluster,
		ClusterUID: cluster.binding.ID, ClusterIDs: cluster.binding.Known.IDs(), History: time.Duration(c.Sink.History), Logger: help.log})
}

func openKafka(c *config.Config, cluster *target, help sinkHelp) (sinks.Sink, error) {
	k := &c.Kafka
	settings := kafka.Config{
		Brokers: k.Brokers, TopicPrefix: k.TopicPrefix, Cluster: cluster.Cluster, Version: versionText(),
		ClusterUID: cluster.binding.ID, ClusterIDs: cluster.binding.Known.IDs(),
		Delivery: k.Delivery, Compression: k.Compression, MaxMessageBytes: int(k.MaxMessageBytes), TransactionTimeout: k.TransactionTimeout,
		History: time.Duration(k.History), Partitions: k.Partitions, ReplicationFactor: k.ReplicationFactor,
		Logger: help.log, Observer: help.watch, Pin: help.pin,
		SASL: kafka.SASL{Mechanism: k.SASLMechanism, Username: k.SASLUsername,
			Password: k.SASLPassword.Reveal(), PasswordFile: k.SASLPasswordFile},
	}
	if k.TLS {
		settings.TLS = k.TLSConfig
	}
	return kafka.New(settings)
}

// sinkAddress says where the sink's server is, in words that may be shown.
func sinkAddress(c *config.Config) string {
	switch c.Sink.Kind {
	case "kafka":
		return "kafka " + c.Kafka.Brokers.String()
	case "postgres":
		return c.Sink.Postgres.String()
	}
	return c.Sink.Kind
}

// describeSink says where changes go, in words that may be shown.
func describeSink(c *config.Config) string {
	switch c.Sink.Kind {
	case "kafka":
		return sinkAddress(c) + " topics " + c.Kafka.TopicPrefix + ".*"
	}
	return sinkAddress(c)
}
