package setup

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
var sinkTable = []SinkEntry{
	{Kind: stdout.Kind, open: openStdout},
	{Kind: kafka.Kind, open: openKafka, read: readKafka,
		at:     func(c *config.Config) string { return "kafka " + c.Kafka.Brokers.String() },
		within: func(c *config.Config) string { return "topics " + c.Kafka.TopicPrefix + ".*" }},
	{Kind: postgres.Kind, open: openPostgres, read: readPostgres,
		at: func(c *config.Config) string { return c.Sink.Postgres.String() }},
}

// SinkEntry is a sink: its properties, and how it is opened.
type SinkEntry struct {
	sinks.Kind
	open func(context.Context, *config.Config, *Cluster, SinkHelp) (sinks.Sink, error)
	// read opens a reader of a cluster's log; nil for a sink that can't be read back.
	read func(ctx context.Context, c *config.Config, cluster string) (sinks.Reader, error)
	// at is the address of its server, and within is the place of the log in it, both without passwords. Both may be nil.
	at, within func(*config.Config) string
}

// SinkOf returns the sink that the settings select.
func SinkOf(c *config.Config) SinkEntry {
	for _, e := range sinkTable {
		if e.Name == c.Sink.Kind {
			return e
		}
	}
	panic("no sink is called " + c.Sink.Kind) // config allows only those of the table
}

// SinkHelp is what the exporter lends to a sink.
type SinkHelp struct {
	Log      *slog.Logger
	Observer sinks.Observer
	Pin      kafka.Pin
	Version  string // of the program
}

// OpenSink opens the sink that the settings select.
func OpenSink(ctx context.Context, start *startup.Steps, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	step := startup.Step{For: "the sink", On: dependency.Sink, At: SinkAddress(c), Limit: OpenLimit}
	var sink sinks.Sink
	err := start.Do(ctx, step, func(ctx context.Context) (err error) {
		sink, err = SinkOf(c).open(ctx, c, cluster, help)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sink, nil
}

func openStdout(_ context.Context, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	return stdout.New(stdout.Options{Envelope: change.Envelope{Version: help.Version, Prefix: c.Kafka.TopicPrefix, Cluster: cluster.Cluster}}), nil
}

func openPostgres(ctx context.Context, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	return postgres.Open(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile, Cluster: cluster.Cluster,
		ClusterUID: cluster.Binding.ID, ClusterIDs: cluster.Binding.Known.IDs(), History: time.Duration(c.Sink.History), Logger: help.Log})
}

func readPostgres(ctx context.Context, c *config.Config, cluster string) (sinks.Reader, error) {
	return postgres.OpenReader(ctx, postgres.Config{URL: c.Sink.Postgres.Reveal(), PasswordFile: c.Sink.PasswordFile, Cluster: cluster})
}

func openKafka(_ context.Context, c *config.Config, cluster *Cluster, help SinkHelp) (sinks.Sink, error) {
	settings := KafkaConfig(c, cluster.Cluster)
	settings.ClusterUID, settings.ClusterIDs = cluster.Binding.ID, cluster.Binding.Known.IDs()
	settings.Logger, settings.Observer, settings.Pin, settings.Version = help.Log, help.Observer, help.Pin, help.Version
	settings.Schemas = &schemas{server: cluster.Server, redact: c.Records.Redact}
	return kafka.New(settings)
}

func readKafka(ctx context.Context, c *config.Config, cluster string) (sinks.Reader, error) {
	return kafka.OpenReader(ctx, KafkaConfig(c, cluster))
}

// KafkaConfig turns the settings into those of the Kafka sink of a cluster, all but what an exporter lends to it.
func KafkaConfig(c *config.Config, cluster string) kafka.Config {
	k := &c.Kafka
	settings := kafka.Config{
		Brokers: k.Brokers, TopicPrefix: k.TopicPrefix, Cluster: cluster,
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

// SinkAddress returns the address of the sink's server, without passwords.
func SinkAddress(c *config.Config) string {
	e := SinkOf(c)
	if e.at == nil {
		return e.Name
	}
	return e.at(c)
}

// DescribeSink returns where changes are written, without passwords.
func DescribeSink(c *config.Config) string {
	if e := SinkOf(c); e.within != nil {
		return SinkAddress(c) + " " + e.within(c)
	}
	return SinkAddress(c)
}
