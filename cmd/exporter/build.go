package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/sinks"
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
	options := source.DefaultOptions()
	options.PageSize = c.Source.PageSize
	return export.Config{
		Cluster: cluster.Cluster, Resources: resources, MetadataOnly: metadataOnly, Namespaces: c.Source.Namespaces,
		LabelSelector: c.Source.LabelSelector, FieldSelector: c.Source.FieldSelector, Before: c.Records.Before == "full",
		Slots: c.Slots.Count, Owner: owner(), LeaseDuration: c.Slots.LeaseDuration,
		Limits: export.Limits{MaxChanges: c.Batch.MaxChanges, MaxBytes: int64(c.Batch.MaxBytes), Linger: c.Batch.Linger,
			Watermark: c.Source.Watermarks},
		BufferChanges: c.Batch.BufferChanges, BufferBytes: int64(c.Batch.BufferBytes), BodyCacheBytes: int64(c.Batch.BufferBytes),
		DiscoveryPoll: time.Minute, HistoryRetention: c.Checkpoint.Retention, ShutdownTimeout: c.Process.ShutdownTimeout,
		Source: options,
	}, nil
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

// openSink opens the destination.
func openSink(ctx context.Context, c *config.Config, cluster *config.Connection, log *slog.Logger) (sinks.Sink, error) {
	return nil, fmt.Errorf("sink %s is not there yet", c.Sink.Kind)
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
