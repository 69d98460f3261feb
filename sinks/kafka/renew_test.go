package kafka_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/config"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// guarded starts a broker that demands a client certificate and a login, and returns a configuration with both in files.
func guarded(t *testing.T) (broker *servers.Kafka, cfg kafka.Config, passwordFile string) {
	t.Helper()
	broker = startKafka(t, servers.KafkaOptions{Guarded: true})
	settings := &config.Kafka{TLS: true, TLSCA: broker.CACertFile, TLSCert: broker.ClientCertFile, TLSKey: broker.ClientKeyFile}
	passwordFile = filepath.Join(t.TempDir(), "password")
	mustDo(t, os.WriteFile(passwordFile, []byte(servers.KafkaPassword+"\n"), 0o600))
	cfg = newConfig(t, broker.ProxiedBrokers)
	cfg.TLS = settings.TLSConfig
	cfg.SASL = kafka.SASL{Mechanism: "SCRAM-SHA-512", Username: servers.KafkaUser, PasswordFile: passwordFile}
	return broker, cfg, passwordFile
}

// Authority, certificates and password are all replaced, and a sink that is open goes on without a restart.
func TestRenewedFilesAreReadForEachConnection(t *testing.T) {
	t.Parallel()
	broker, cfg, passwordFile := guarded(t)
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	one, two, three := lives(1, 20, 4), lives(2, 20, 4), lives(3, 20, 4)
	mustWrite(t, log, one)

	mustDo(t, broker.Recertify(servers.Context(t), time.Now().Add(time.Hour)))
	mustWrite(t, log, two)

	mustDo(t, broker.ChangePassword(servers.Context(t), "another-pw"))
	mustDo(t, os.WriteFile(passwordFile, []byte("another-pw"), 0o600))
	broker.Proxy.Drop()
	mustWrite(t, log, three)
	wantOnce(t, newReader(t, broker.Brokers).committed(t, broker.Brokers, cfg.TopicPrefix+".pods"), one, two, three)
}

// An authority is replaced in the usual steps. First the client trusts both, then the broker gets a certificate of the new one,
// then the client trusts only that. No write fails.
func TestAnAuthorityIsReplacedStepByStep(t *testing.T) {
	t.Parallel()
	broker := startKafka(t, servers.KafkaOptions{TLS: true})
	trusted := filepath.Join(t.TempDir(), "ca.crt")
	trust := func(authorities ...[]byte) { mustDo(t, os.WriteFile(trusted, slices.Concat(authorities...), 0o600)) }
	authority := func() []byte {
		text, err := os.ReadFile(broker.CACertFile)
		mustDo(t, err)
		return text
	}
	was := authority()
	trust(was)
	o := &owner{cfg: newConfig(t, broker.TLSBrokers)}
	o.cfg.TLS = (&config.Kafka{TLS: true, TLSCA: trusted}).TLSConfig
	mustDo(t, o.open(t))
	o.write(t, 9)
	mustDo(t, broker.Reissue(time.Now().Add(time.Hour)))
	for _, step := range []func(){
		func() { trust(was, authority()) },
		func() { mustDo(t, broker.Restart(servers.Context(t))) },
		func() { trust(authority()) },
	} {
		step()
		o.write(t, 9)        // in the open session
		mustDo(t, o.open(t)) // and in one with new connections
		o.write(t, 9)
	}
	wantOnce(t, newReader(t, broker.Brokers).committed(t, broker.Brokers, o.cfg.TopicPrefix+".pods"), o.batches...)
}

// The error says what is wrong with a certificate, and ends as soon as it is renewed.
func TestExpiredCertificatesAreNamed(t *testing.T) {
	t.Parallel()
	broker, cfg, passwordFile := guarded(t)
	past := time.Now().Add(-time.Minute)
	good := time.Now().Add(time.Hour)
	expired := "expired at " + past.UTC().Format(time.RFC3339)

	mustDo(t, newSink(t, cfg).Ping(servers.Context(t)))
	mustDo(t, broker.CertifyClient(past))
	wantRefusal(t, cfg, "refuses the client certificate (KUBECDC_KAFKA_TLS_CERT): CN=client", expired)
	mustDo(t, broker.CertifyClient(good))
	mustDo(t, newSink(t, cfg).Ping(servers.Context(t)))

	mustDo(t, broker.Recertify(servers.Context(t), past))
	wantRefusal(t, cfg, "'s certificate: CN=kafka", expired)
	mustDo(t, broker.Recertify(servers.Context(t), good))
	mustDo(t, newSink(t, cfg).Ping(servers.Context(t)))

	mustDo(t, os.Remove(passwordFile))
	wantRefusal(t, cfg, "read KUBECDC_KAFKA_SASL_PASSWORD_FILE", "put it in order")
	mustDo(t, os.Remove(broker.CACertFile))
	wantRefusal(t, cfg, "read KUBECDC_KAFKA_TLS_CA", "put it in order")
}

func wantRefusal(t *testing.T, cfg kafka.Config, want ...string) {
	t.Helper()
	err := newSink(t, cfg).Ping(servers.Context(t))
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("Ping = %v, want %q", err, w)
		}
	}
}
