package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// Certificates expire and passwords are changed. Each is named in the log, in /readyz and in the metrics, and ends without a
// restart as soon as its file is renewed. In the end nothing is lost.
func TestSlowCredentialsAreRenewed(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	kinds := []Kind{ConfigMaps}
	w := NewBrokerWorld(t, servers.KafkaOptions{Guarded: true})
	proxies, env := w.Proxied(t)
	kafkaPassword, postgresPassword := filepath.Join(t.TempDir(), "kafka"), filepath.Join(t.TempDir(), "postgres")
	renew(t, kafkaPassword, servers.KafkaPassword)
	renew(t, postgresPassword, "one-pw")
	servers.Exec(t, w.Postgres.URL, "create role renewed login password 'one-pw'")
	servers.Exec(t, w.Postgres.URL, "grant create on database kubecdc to renewed")
	checkpoint, err := url.Parse(env["KUBECDC_CHECKPOINT"])
	must(t, err)
	checkpoint.User = url.User("renewed")
	w.Env = env
	exporter := StartExporter(t, "the exporter", w.With("KUBECDC_RESOURCES", Resources(kinds),
		"KUBECDC_KAFKA_TLS", "on", "KUBECDC_KAFKA_TLS_CA", w.Kafka.CACertFile, "KUBECDC_KAFKA_TLS_CERT", w.Kafka.ClientCertFile,
		"KUBECDC_KAFKA_TLS_KEY", w.Kafka.ClientKeyFile, "KUBECDC_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512",
		"KUBECDC_KAFKA_SASL_USERNAME", servers.KafkaUser, "KUBECDC_KAFKA_SASL_PASSWORD_FILE", kafkaPassword,
		"KUBECDC_CHECKPOINT", checkpoint.String(), "KUBECDC_CHECKPOINT_PASSWORD_FILE", postgresPassword))
	writer := w.Writer(t, kinds)
	writer.Run(30)
	exporter.AwaitReady(t)

	ctx, past, good := context.Background(), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	expired := "expired at " + past.UTC().Format(time.RFC3339)
	sink, store := affected{"sink": exporter}, affected{"checkpoint": exporter}
	sink.endure(t, writer, trouble{name: "the client's certificate has expired", hint: "(KUBECDC_KAFKA_TLS_CERT): CN=client, " + expired,
		make: func() { must(t, w.Kafka.CertifyClient(past)); w.Kafka.Proxy.Drop() },
		mend: func() { must(t, w.Kafka.CertifyClient(good)) }})
	// One outage with two reasons in turn: the exporter has a new authority before the broker, whose new certificate has expired.
	sink.endure(t, writer, trouble{name: "the broker's certificate has expired", hint: "'s certificate: CN=kafka, " + expired,
		make: func() {
			must(t, w.Kafka.Reissue(past))
			w.Kafka.Proxy.Drop()
			Await(t, "a spool that begins since the broker's certificate is of another authority", func() (bool, error) {
				writer.Run(2)
				return hasLine(exporter.Wrong(), []string{"spooling, ", "signed by unknown authority"}), nil
			})
			must(t, w.Kafka.Restart(ctx))
		},
		mend: func() { must(t, w.Kafka.Recertify(ctx, good)) }})
	sink.endure(t, writer, trouble{name: "another password in Kafka", hint: "check KUBECDC_KAFKA_SASL_USERNAME",
		make: func() { must(t, w.Kafka.ChangePassword(ctx, "another-pw")); w.Kafka.Proxy.Drop() },
		mend: func() { renew(t, kafkaPassword, "another-pw") }})
	store.endure(t, writer, trouble{name: "another password in Postgres", hint: "check user and password, in the URL or in the file",
		make: func() {
			servers.Exec(t, w.Postgres.URL, "alter role renewed password 'another-pw'")
			proxies["postgres"].Drop()
		},
		mend: func() { renew(t, postgresPassword, "another-pw") }})

	log := w.AwaitComplete(t, writer, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	if text := exporter.Tail(1 << 30); strings.Contains(text, "one-pw") || strings.Contains(text, "another-pw") || strings.Contains(text, servers.KafkaPassword) {
		t.Error("a password is in the log")
	}
}

func renew(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
}
