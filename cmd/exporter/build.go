package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/stdout"
	"kubecdc/source"
)

// exportConfig says in export's words what the settings say.
func exportConfig(c *config.Config, cluster *config.Connection) (export.Config, error) {
	resources, err := source.ParsePatterns(c.Source.Resources)
	if err != nil {
		return export.Config{}, fmt.Errorf("KUBECDC_RESOURCES: %w", err)
	}
	metadataOnly, err := source.ParsePatterns(c.Records.MetadataOnly)
	if err != nil {
		return export.Config{}, fmt.Errorf("KUBECDC_METADATA_ONLY: %w", err)
	}
	return export.Config{
		Cluster: cluster.Cluster, Resources: resources, MetadataOnly: metadataOnly, Namespaces: c.Source.Namespaces,
		LabelSelector: c.Source.LabelSelector, FieldSelector: c.Source.FieldSelector, Before: c.Records.Before == "full",
		Slots: c.Slots.Count, Owner: owner(), LeaseDuration: c.Slots.LeaseDuration,
		Limits: export.Limits{MaxChanges: c.Batch.MaxChanges, MaxBytes: int64(c.Batch.MaxBytes), Linger: c.Batch.Linger,
			Watermark: c.Source.Watermarks},
		BufferChanges: c.Batch.BufferChanges, BufferBytes: int64(c.Batch.BufferBytes), BodyCacheBytes: int64(c.Batch.BufferBytes),
		DiscoveryPoll: time.Minute, HistoryRetention: c.Checkpoint.Retention, ShutdownTimeout: c.Process.ShutdownTimeout,
		Source: sourceOptions(c),
	}, nil
}

// backfillParallel requests of one gap run at once; all together they keep to the rate.
const backfillParallel = 4

func sourceOptions(c *config.Config) source.Options {
	options := source.DefaultOptions()
	options.PageSize = c.Source.PageSize
	if c.Recovery.Backfill {
		options.Backfill = &source.Backfill{
			Limiter: rate.NewLimiter(rate.Limit(c.Recovery.BackfillQPS), backfillParallel), Parallel: backfillParallel,
			MaxRevisions: uint64(c.Recovery.BackfillMaxRevisions), Claims: &source.Claims{},
		}
	}
	return options
}

// owner names this process in the lease: readable, and never the same twice.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// openStore opens the checkpoint, and says where it is in words that may be shown.
func openStore(ctx context.Context, c *config.Config, cluster *config.Connection) (store checkpoint.Store, where string, err error) {
	path, err := c.SQLitePath(cluster.Cluster)
	if err != nil {
		return nil, "", err
	}
	if path != "" {
		store, err = sqlite.Open(ctx, path)
		return store, "sqlite:" + path, err
	}
	store, err = postgres.Open(ctx, postgres.Config{URL: c.Checkpoint.Location.Reveal()})
	return store, c.Checkpoint.Location.String(), err
}

// openSink prepares the destination.
func openSink(ctx context.Context, c *config.Config, cluster *config.Connection, log *slog.Logger) (sinks.Sink, error) {
	switch c.Sink.Kind {
	case "kafka":
		return openKafka(c, cluster, log)
	case "stdout":
		return stdout.New(stdout.Options{Envelope: change.Envelope{Version: versionText(), Prefix: c.Kafka.TopicPrefix, Cluster: cluster.Cluster}}), nil
	}
	return nil, fmt.Errorf("KUBECDC_SINK=%s is not there yet", c.Sink.Kind)
}

func openKafka(c *config.Config, cluster *config.Connection, log *slog.Logger) (sinks.Sink, error) {
	k := &c.Kafka
	tls, err := k.TLSConfig()
	if err != nil {
		return nil, err
	}
	return kafka.New(kafka.Config{
		Brokers: k.Brokers, TopicPrefix: k.TopicPrefix, Cluster: cluster.Cluster, Version: versionText(),
		Delivery: k.Delivery, Compression: k.Compression, MaxMessageBytes: int(k.MaxMessageBytes),
		Partitions: k.Partitions, ReplicationFactor: k.ReplicationFactor, TLS: tls, Logger: log,
		SASL: kafka.SASL{Mechanism: k.SASLMechanism, Username: k.SASLUsername, Password: k.SASLPassword.Reveal()},
	})
}

// describeSink says where changes go, in words that may be shown.
func describeSink(c *config.Config) string {
	switch c.Sink.Kind {
	case "kafka":
		return "kafka " + c.Kafka.Brokers.String() + " topics " + c.Kafka.TopicPrefix + ".*"
	case "postgres":
		return c.Sink.Postgres.String()
	}
	return c.Sink.Kind
}
