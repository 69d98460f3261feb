package setup

import (
	"context"
	"errors"
	"time"

	"kubecdc/config"
	"kubecdc/internal/fault"
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

func readKafka(ctx context.Context, c *config.Config, cluster string) (sinks.ReadCloser, error) {
	return kafka.OpenReader(ctx, KafkaConfig(c, cluster))
}

// KafkaConfig converts the settings for a cluster's Kafka sink, except for the parts that come from an exporter (SinkHelp).
func KafkaConfig(c *config.Config, cluster string) kafka.Config {
	k := &c.Kafka
	settings := kafka.Config{
		Brokers: k.Brokers, TopicPrefix: k.TopicPrefix, Cluster: cluster,
		Encoding: c.Records.Encoding, Delivery: k.Delivery, Compression: k.Compression, MaxMessageBytes: int(k.MaxMessageBytes),
		TransactionTimeout: k.TransactionTimeout, Protocol2: k.Protocol == 2,
		Expiring: k.Expiring == "accept",
		History:  time.Duration(k.History), Partitions: k.Partitions, ReplicationFactor: k.ReplicationFactor,
		SASL: kafka.SASL{Mechanism: k.SASLMechanism, Username: k.SASLUsername,
			Password: k.SASLPassword.Reveal(), PasswordFile: k.SASLPasswordFile, AWSRegion: k.AWSRegion,
			OAuth: kafka.OAuth{TokenFile: k.OAuthTokenFile, TokenURL: k.OAuthTokenURL, ClientID: k.OAuthClientID,
				SecretFile: k.OAuthSecretFile,
				Scope:      k.OAuthScope, CAFile: k.OAuthCA}},
	}
	settings.SASL.OAuth.Extensions, _ = k.Extensions() // config has checked them
	settings.Audit = c.Audit.Enabled()
	settings.TopicConfig, _ = k.TopicConfig() // config has checked it
	if k.TLS {
		settings.TLS = k.TLSConfig
	}
	r := &c.Registry
	settings.Registry.URLs, settings.Registry.TLS = r.URLs, r.TLSConfig
	settings.Registry.Username, settings.Registry.Password, settings.Registry.PasswordFile =
		r.Username, r.Password.Reveal(), r.PasswordFile
	return settings
}

// OpenBroker opens the sink as the broker of consumer groups. It fails if the sink is no broker, or does not answer.
func OpenBroker(ctx context.Context, settings *config.Config, cluster string) (*kafka.Sink, error) {
	e := SinkOf(settings)
	if e.broker == nil {
		return nil, fault.Usage("consumer groups have offsets in Kafka, and KUBECDC_SINK is " + e.Name +
			": set KUBECDC_SINK=kafka and KUBECDC_KAFKA_BROKERS")
	}
	sink, err := e.broker(settings, cluster)
	if err != nil {
		return nil, err
	}
	if err := sink.Ping(ctx); err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	return sink, nil
}

// LogIdentity returns the identity of the log that the settings name. It asks a broker for it. For other sinks it is the address
// of the sink, without passwords (SinkAddress).
func LogIdentity(ctx context.Context, settings *config.Config, cluster string) (string, error) {
	e := SinkOf(settings)
	if e.broker == nil {
		return SinkAddress(settings), nil
	}
	sink, err := e.broker(settings, cluster)
	if err != nil {
		return "", err
	}
	defer sink.Close()
	return sink.Identity(ctx)
}
