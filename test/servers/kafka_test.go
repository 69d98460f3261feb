package servers_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kubecdc/test/servers"
)

func asServerError(err error, target **servers.ServerError) bool { return errors.As(err, target) }

func contains(text, part string) bool { return strings.Contains(text, part) }

func kafkaClient(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...))...)
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

// produce makes a topic, if it must, and writes one record to it.
func produce(t *testing.T, c *kgo.Client, topic string) {
	t.Helper()
	_, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, nil, topic)
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err)
	}
	check(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr())
}

func endOffset(t *testing.T, c *kgo.Client, topic string) int64 {
	t.Helper()
	ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), topic)
	check(t, err)
	end, _ := ends.Lookup(topic, 0)
	check(t, end.Err)
	return end.Offset
}

func TestRecordsOutliveARestartAndAKilledBroker(t *testing.T) {
	k := servers.SharedKafka(t)
	topic := servers.UniqueName()
	produce(t, kafkaClient(t, k.Brokers), topic)
	check(t, k.Restart(t.Context()))
	produce(t, kafkaClient(t, k.Brokers), topic)
	k.Kill()
	check(t, k.Start(t.Context()))
	produce(t, kafkaClient(t, k.Brokers), topic)
	if n := endOffset(t, kafkaClient(t, k.Brokers), topic); n != 3 {
		t.Fatalf("the topic holds %d records, want 3", n)
	}
}

func TestTheBrokerCommitsTransactions(t *testing.T) {
	k := servers.SharedKafka(t)
	topic := servers.UniqueName()
	produce(t, kafkaClient(t, k.Brokers), topic)
	c := kafkaClient(t, k.Brokers, kgo.TransactionalID(topic))
	check(t, c.BeginTransaction())
	check(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("y")}).FirstErr())
	check(t, c.EndTransaction(t.Context(), kgo.TryCommit))
}

func TestABrokerBehindTheProxyIsReachedThroughItOnly(t *testing.T) {
	k := servers.SharedKafka(t)
	c := kafkaClient(t, k.ProxiedBrokers)
	produce(t, c, servers.UniqueName())
	before := k.Proxy.Accepted()
	k.Proxy.Cut()
	if err := c.Ping(t.Context()); err == nil {
		t.Fatal("the client reached the broker past the proxy")
	}
	check(t, k.Proxy.Restore())
	check(t, c.Ping(t.Context()))
	if k.Proxy.Accepted() <= before {
		t.Fatal("no connection came through the proxy after it was restored")
	}
}

func TestKafkaWithSASLAndTLS(t *testing.T) {
	t.Parallel()
	k, err := servers.StartKafka(t.Context(), servers.KafkaOptions{SASL: true, TLS: true})
	check(t, err)
	defer k.Stop()
	ping := func(brokers []string, opt kgo.Opt) error {
		return kafkaClient(t, brokers, opt).Ping(t.Context())
	}
	good := scram.Auth{User: servers.KafkaUser, Pass: servers.KafkaPassword}
	for _, mechanism := range []sasl.Mechanism{
		plain.Auth{User: good.User, Pass: good.Pass}.AsMechanism(),
		good.AsSha256Mechanism(),
		good.AsSha512Mechanism(),
	} {
		if err := ping(k.SASLBrokers, kgo.SASL(mechanism)); err != nil {
			t.Errorf("log in by %s: %v", mechanism.Name(), err)
		}
	}
	bad := scram.Auth{User: good.User, Pass: "wrong"}.AsSha256Mechanism()
	if err := ping(k.SASLBrokers, kgo.SASL(bad)); err == nil {
		t.Error("the broker took a wrong password")
	}
	check(t, ping(k.TLSBrokers, kgo.DialTLSConfig(trust(t, k.CACertFile))))
}

func trust(t *testing.T, caFile string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(caFile)
	check(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

func TestMessageMaxBytes(t *testing.T) {
	t.Parallel()
	k, err := servers.StartKafka(context.Background(), servers.KafkaOptions{MessageMaxBytes: 20_000})
	check(t, err)
	defer k.Stop()
	c := kafkaClient(t, k.Brokers)
	topic := servers.UniqueName()
	produce(t, c, topic)
	big := &kgo.Record{Topic: topic, Value: []byte(servers.UniqueName() + strings.Repeat("x", 30_000))}
	plainText := kafkaClient(t, k.Brokers, kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := plainText.ProduceSync(t.Context(), big).FirstErr(); err == nil {
		t.Fatal("the broker took a record above its limit")
	}
}
