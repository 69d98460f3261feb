package main

import (
	"context"
	"log/slog"
	"time"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/export/dependency"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/stdout"
)

// sinkTable has every sink that KUBECDC_SINK can name. docs/adding-a-sink.md explains how to add one.
var sinkTable = []sinkEntry{
	{Kind: stdout.Kind, open: openStdout},
	{Kind: kafka.Kind, open: openKafka, read: readKafka,
		at:     func(c *config.Config) string { return "kafka " + c.Kafka.Brokers.String() },
		within: func(c *config.Config) string { return "topics " + c.Kafka.TopicPrefix + ".*" }},
	{Kind: postgres.Kind, open: openPostgres, read: readPostgres,
		at: func(c *config.Config) string { return c.Sink.Postgres.String() }},
}

type sinkEntry struct {
	sinks.Kind
	open func(context.Context, *config.Config, *target, sinkHelp) (sinks.Sink, error)
	// read opens a reader of a cluster's log; nil for a sink that can't be read back.
	read func(ctx context.Context, c *config.Config, cluster string) (sinks.Reader, error)
	// at is the address of its server, and within is the place of the log in it, both without passwords. Both may be nil.
	at, within func(*config.Config) string
}

// sinkOf returns the sink that the settings select.
func sinkOf(c *config.Config) sinkEntry {
	for _, e := range sinkTable {
		if e.Name == c.Sink.Kind {
			return e
		}
	}
	panic("no sink is called " + c.Sink.Kind) // config allows only those of the table
}

// sinkHelp is what the exporter lends to a sink.
type sinkHelp struct {
	log   *slog.Logger
	watch sinks.Observer
	pin   kafka.Pin
}

// openSink opens the sink that the settings select.
func openSink(ctx context.Context, start *startup.Steps, c *config.Config, cluster *target, help sinkHelp) (sinks.Sink, error) {
	step := startup.Step{For: "the sink", On: dependency.Sink, At: sinkAddress(c), Limit: openLimit}
	var sink sinks.Sink
	err := start.Do(ctx, step, func(ctx context.Context) (err error) {
		sink, err = sinkOf(c).open(ctx, c, cluster, help)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sink, nil
}

func openStdout(_ context.Context, c *config.Config, cluster *target, _ sinkHelp) (sinks.Sink, error) {
	return stdout.New(stdout.Options{Envelope: change.Envelope{Version: versionText(), Prefix: c.Kafka.TopicPrefix, Cluster: cluster.Cluster}}), nil
}

func openPostgres(ctx context.Context, c *config.Config, cluster *target, help sinkHelp) (sinks.Sink, error) {
	return postgres.Open(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile, Cluster: cluster.Cluster,
		ClusterUID: cluster.binding.ID, ClusterIDs: cluster.binding.Known.IDs(), History: time.Duration(c.Sink.History), Logger: help.log})
}

func readPostgres(ctx context.Context, c *config.Config, cluster string) (sinks.Reader, error) {
	return postgres.OpenReader(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile, Cluster: cluster})
}

func openKafka(_ context.Context, c *config.Config, cluster *target, help sinkHelp) (sinks.Sink, error) {
	settings := kafkaConfig(c, cluster.Cluster)
	settings.ClusterUID, settings.ClusterIDs = cluster.binding.ID, cluster.binding.Known.IDs()
	settings.Logger, settings.Observer, settings.Pin = help.log, help.watch, help.pin
	settings.Schemas = &schemas{server: cluster.server, redact: c.Records.Redact}
	return kafka.New(settings)
}

func readKafka(ctx context.Context, c *config.Config, cluster string) (sinks.Reader, error) {
	return kafka.OpenReader(ctx, kafkaConfig(c, cluster))
}

func kafkaConfig(c *config.Config, cluster string) kafka.Config {
	k := &c.Kafka
	settings := kafka.Config{
		Brokers: k.Brokers, TopicPrefix: k.TopicPrefix, Cluster: cluster, Version: versionText(),
		Encoding: c.Records.Encoding, Delivery: k.Delivery, Compression: k.Compression, MaxMessageBytes: int(k.MaxMessageBytes), TransactionTimeout: k.TransactionTimeout,
		History: time.Duration(k.History), Partitions: k.Partitions, ReplicationFactor: k.ReplicationFactor,
		SASL: kafka.SASL{Mechanism: k.SASLMechanism, Username: k.SASLUsername,
			Password: k.SASLPassword.Reveal(), PasswordFile: k.SASLPasswordFile, AWSRegion: k.AWSRegion,
			OAuth: kafka.OAuth{TokenFile: k.OAuthTokenFile, TokenURL: k.OAuthTokenURL, ClientID: k.OAuthClientID, SecretFile: k.OAuthSecretFile,
				Scope: k.OAuthScope, CAFile: k.OAuthCA}},
	}
	settings.SASL.OAuth.Extensions, _ = k.Extensions() // which config has checked
	settings.TopicConfig, _ = k.TopicConfig()          // which config has checked
	if k.TLS {
		settings.TLS = k.TLSConfig
	}
	r := &c.Registry
	settings.Registry.URLs, settings.Registry.TLS = r.URLs, r.TLSConfig
	settings.Registry.Username, settings.Registry.Password, settings.Registry.PasswordFile = r.Username, r.Password.Reveal(), r.PasswordFile
	return settings
}

// sinkAddress returns the address of the sink's server, without passwords.
func sinkAddress(c *config.Config) string {
	e := sinkOf(c)
	if e.at == nil {
		return e.Name
	}
	return e.at(c)
}

// describeSink returns where changes are written, without passwords.
func describeSink(c *config.Config) string {
	if e := sinkOf(c); e.within != nil {
		return sinkAddress(c) + " " + e.within(c)
	}
	return sinkAddress(c)
}
