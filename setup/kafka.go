package setup

import (
	"context"
	"strings"
	"time"

	"kubecdc/config"
	"kubecdc/internal/startup"
	"kubecdc/replay"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
)

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

// OpenReplayTopics opens the topics of a prefix for a replay: of these brokers, or of those of the settings. live is the identity
// of the log that is read, which must not be written to. The error is a *replay.ArgumentError if the topics can't be meant.
func OpenReplayTopics(
	ctx context.Context, settings *config.Config, cluster, live, prefix string, brokers []string, version string,
) (*kafka.Replay, error) {
	to := KafkaConfig(settings, cluster)
	to.History, to.Version = 0, version // what is replayed is kept
	if len(brokers) > 0 {
		to.Brokers = brokers
	}
	if len(to.Brokers) == 0 {
		return nil, replay.WrongArgument("--to-prefix: name the Kafka of the topics with --to-brokers, or set KUBECDC_KAFKA_BROKERS")
	}
	if prefix != "" {
		to.TopicPrefix = prefix
	}
	if to.Delivery = kafka.ExactlyOnce; settings.Sink.Kind != kafka.Kind.Name && prefix == "" {
		return nil, replay.WrongArgument("--to-prefix: name the prefix of the topics")
	}
	if err := to.Validate(); err != nil {
		return nil, replay.WrongArgument("--to-prefix, --to-brokers: %v", err)
	}
	target, err := kafka.NewReplay(to)
	if err != nil {
		return nil, err
	}
	var identity string
	step := startup.Step{For: "the Kafka to write to", At: strings.Join(to.Brokers, ","), Limit: RequestLimit}
	err = startup.Once(ctx, step, func(ctx context.Context) (err error) {
		identity, err = target.Identity(ctx)
		return err
	})
	if err != nil {
		target.Close()
		return nil, err
	}
	if overlap(identity, live) {
		target.Close()
		return nil, replay.WrongArgument("the live log is %s, and a replay to %s would write into its topics: choose a prefix that is "+
			"no part of the live one", live, identity)
	}
	return target, nil
}

// overlap reports whether two logs, as kafka.Sink.Identity names them, have topics in common.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// OpenKafka connects to the log's Kafka.
func OpenKafka(ctx context.Context, settings *config.Config, cluster string) (*kafka.Sink, error) {
	sink, err := kafka.New(KafkaConfig(settings, cluster))
	if err != nil {
		return nil, err
	}
	return sink, sink.Ping(ctx)
}

// LogIdentity is the identity of the log that the settings name; its place, if it is not in Kafka.
func LogIdentity(ctx context.Context, settings *config.Config, cluster string) (string, error) {
	if settings.Sink.Kind != kafka.Kind.Name {
		return SinkAddress(settings), nil
	}
	sink, err := kafka.New(KafkaConfig(settings, cluster))
	if err != nil {
		return "", err
	}
	defer sink.Close()
	return sink.Identity(ctx)
}
