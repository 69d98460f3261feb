package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// The ways to deliver.
const (
	ExactlyOnce = "exactly-once"  // each batch is one transaction
	AtLeastOnce = "at-least-once" // idempotent writes, no transaction: a batch may be repeated after a crash
)

// Config says where the brokers are and how to write. Only Brokers, TopicPrefix and Cluster are required.
type Config struct {
	Brokers     []string // host:port
	TopicPrefix string
	Cluster     string
	ClusterUID  string   // what tells the cluster from all others of that name; it never changes
	ClusterIDs  []string // all that it may be known by: what names one of them is this cluster's too
	Version     string   // kubecdc's own, for the records
	ClientID    string   // default "kubecdc"

	Delivery    string // ExactlyOnce (default) or AtLeastOnce
	Compression string // none, gzip, snappy, lz4, zstd (default)
	// MaxMessageBytes is the largest record batch to send. 0: what each topic allows (max.message.bytes), or
	// Kafka's default of 1 MiB where that may not be read.
	MaxMessageBytes int

	Partitions        int // of topics made on demand; default 6
	ReplicationFactor int // of topics made on demand; 0 or -1: the broker's default
	// History is how long every change stays in the topics made on demand; after that the last state of each object does.
	// sinks.Forever: none is dropped. Default a week.
	History time.Duration
	// TopicConfig is set on the data topics made on demand, over what follows from History.
	TopicConfig map[string]string

	Pin Pin // without it the number of partitions is kept only as long as a log is open

	// TransactionTimeout: the broker aborts a transaction that is open for longer, and the slot must be opened anew;
	// readers of committed records wait for a dead exporter's transaction for as long. Default 1 minute.
	TransactionTimeout time.Duration
	// RequestTimeout is how long to wait for one answer before asking again. Default 20 seconds.
	RequestTimeout time.Duration

	TLS  func() (*tls.Config, error) // called for each connection, so that its files may be renewed; nil: plaintext
	SASL SASL

	Logger   *slog.Logger   // default slog.Default()
	Observer sinks.Observer // default: nobody
}

// Pin remembers how many partitions of a topic are written to, over all processes and restarts; anew: the topic was
// just made.
type Pin func(ctx context.Context, topic string, found int, anew bool) (use int, err error)

// SASL is how to log in; no Mechanism, no login.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	Username  string
	Password  string

	PasswordFile string // in place of Password; read at each login, so that it may be renewed
}

// String keeps the password out of logs.
func (s SASL) String() string { return s.Mechanism + " as " + s.Username }

// GoString keeps the password out of %#v.
func (s SASL) GoString() string { return s.String() }

// LogValue keeps the password out of structured logs.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// defaultLimit is Kafka's default of message.max.bytes.
const defaultLimit = 1048588

func (c *Config) setDefaults() {
	setDefault(&c.Delivery, ExactlyOnce)
	setDefault(&c.Compression, "zstd")
	setDefault(&c.ClientID, "kubecdc")
	setDefault(&c.Version, "dev")
	setDefault(&c.Partitions, 6)
	setDefault(&c.ReplicationFactor, -1)
	setDefault(&c.History, week)
	setDefault(&c.TransactionTimeout, time.Minute)
	setDefault(&c.RequestTimeout, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Pin == nil {
		c.Pin = func(_ context.Context, _ string, found int, _ bool) (int, error) { return found, nil }
	}
	if c.Observer == nil {
		c.Observer = sinks.NoObserver{}
	}
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Validate names every field that can't be right.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(c.Brokers) > 0, "Brokers: at least one host:port is needed")
	for _, b := range c.Brokers {
		bad(strings.TrimSpace(b) != "", "Brokers: an entry is empty")
	}
	bad(c.TopicPrefix != "", "TopicPrefix: must not be empty")
	bad(c.TopicPrefix == "" || strings.HasPrefix(change.ControlTopic(c.TopicPrefix), c.TopicPrefix+".control"),
		"TopicPrefix: %q: a topic may have letters, digits, '.', '_' and '-' only", c.TopicPrefix)
	bad(c.Cluster != "", "Cluster: must not be empty")
	bad(c.Delivery == "" || c.Delivery == ExactlyOnce || c.Delivery == AtLeastOnce,
		"Delivery: %q is neither %s nor %s", c.Delivery, ExactlyOnce, AtLeastOnce)
	_, err := recordbatch.NewCodec(c.Compression)
	bad(err == nil, "Compression: %v", err)
	bad(c.MaxMessageBytes == 0 || c.MaxMessageBytes >= producer.MinLimit, "MaxMessageBytes: %d is less than %d", c.MaxMessageBytes, producer.MinLimit)
	bad(c.TransactionTimeout == 0 || c.TransactionTimeout >= time.Millisecond, "TransactionTimeout: %s is less than a millisecond", c.TransactionTimeout)
	bad(c.History >= 0, "History: %s is negative", c.History)
	bad(c.Partitions >= 0, "Partitions: %d is negative", c.Partitions)
	bad(c.ReplicationFactor >= -1, "ReplicationFactor: %d is less than -1", c.ReplicationFactor)
	_, err = c.SASL.mechanism()
	bad(err == nil, "SASL: %v", err)
	return errors.Join(errs...)
}
