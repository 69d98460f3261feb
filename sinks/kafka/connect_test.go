package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"testing"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

func TestSecureConnections(t *testing.T) {
	t.Parallel()
	broker := startKafka(t, servers.KafkaOptions{SASL: true, TLS: true})
	login := kafka.SASL{Username: servers.KafkaUser, Password: servers.KafkaPassword}
	for name, change := range map[string]func(*kafka.Config){
		"PLAIN":         func(c *kafka.Config) { c.SASL.Mechanism = "PLAIN" },
		"SCRAM-SHA-256": func(c *kafka.Config) { c.SASL.Mechanism = "SCRAM-SHA-256" },
		"SCRAM-SHA-512": func(c *kafka.Config) { c.SASL.Mechanism = "SCRAM-SHA-512" },
		"TLS":           func(c *kafka.Config) { c.Brokers, c.TLS = broker.TLSBrokers, trust(t, broker.CACertFile) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, broker.SASLBrokers)
			cfg.SASL = login
			change(&cfg)
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			b := lives(1, 20, 4)
			mustWrite(t, log, b)
			mustDo(t, newSink(t, cfg).Ping(servers.Context(t)))
			wantOnce(t, newReader(t, broker.Brokers).committed(t, broker.Brokers, cfg.TopicPrefix+".pods"), b)
		})
	}
	refusals(t, broker, login)
}

// refusals checks that a refused connection returns an error at once, with a hint and without the password.
func refusals(t *testing.T, broker *servers.Kafka, login kafka.SASL) {
	for name, tc := range map[string]struct {
		change func(*kafka.Config)
		hint   string
	}{
		"wrong password": {func(c *kafka.Config) { c.SASL.Mechanism, c.SASL.Password = "SCRAM-SHA-512", "wrong-pw" }, "password"},
		"wrong mechanism": {func(c *kafka.Config) {
			c.Brokers, c.SASL.Mechanism = broker.TLSBrokers, "PLAIN"
			c.TLS = trust(t, broker.CACertFile)
		}, "SASL"},
		"unknown authority": {func(c *kafka.Config) {
			c.Brokers, c.SASL, c.TLS = broker.TLSBrokers, kafka.SASL{}, func() (*tls.Config, error) { return &tls.Config{}, nil }
		}, "authority"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, broker.SASLBrokers)
			cfg.SASL = login
			tc.change(&cfg)
			_, err := newSink(t, cfg).Open(servers.Context(t), 0, 1, sinks.Durable{})
			if err == nil || !strings.Contains(err.Error(), tc.hint) || cfg.SASL.Password != "" && strings.Contains(err.Error(), cfg.SASL.Password) {
				t.Errorf("Open = %v, want a hint about %s", err, tc.hint)
			}
		})
	}
}

// Ping does not wait for a broker that is down.
func TestPingEndsAtOnce(t *testing.T) {
	err := newSink(t, newConfig(t, []string{"127.0.0.1:1"})).Ping(servers.Context(t))
	if err == nil || !strings.Contains(err.Error(), "check that the brokers run") {
		t.Errorf("Ping = %v, want a hint", err)
	}
}

func trust(t *testing.T, file string) func() (*tls.Config, error) {
	t.Helper()
	pem, err := os.ReadFile(file)
	mustDo(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return func() (*tls.Config, error) { return &tls.Config{RootCAs: pool}, nil }
}

func TestSettingsAreChecked(t *testing.T) {
	for wrong, change := range map[string]func(*kafka.Config){
		"Brokers:":     func(c *kafka.Config) { c.Brokers = nil },
		"TopicPrefix:": func(c *kafka.Config) { c.TopicPrefix = "a b" },
		"Cluster:":     func(c *kafka.Config) { c.Cluster = "" },
		"Delivery:":    func(c *kafka.Config) { c.Delivery = "maybe" },
		"Encoding:":    func(c *kafka.Config) { c.Encoding = "xml" },
		`"rar"`:        func(c *kafka.Config) { c.Compression = "rar" },
		`"GSSAPI"`:     func(c *kafka.Config) { c.SASL = kafka.SASL{Mechanism: "GSSAPI", Password: "hush"} },
	} {
		c := kafka.Config{Brokers: []string{"a:9092"}, TopicPrefix: "a", Cluster: "a"}
		change(&c)
		if _, err := kafka.New(c); err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "hush") {
			t.Errorf("the error does not name %s, or shows the password: %v", wrong, err)
		}
	}
	secret := kafka.SASL{Password: "hush"}
	if text := fmt.Sprintf("%v %+v %#v", secret, secret, secret); strings.Contains(text, "hush") {
		t.Errorf("the password is printed: %s", text)
	}
}
