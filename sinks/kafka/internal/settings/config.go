// Package settings has how to reach Kafka and what to write there: the sink's configuration, with its defaults and checks,
// connections over TLS, and logins.
package settings

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/encoding/registry"
)

// The delivery guarantees.
const (
	ExactlyOnce = "exactly-once"  // each batch is one transaction
	AtLeastOnce = "at-least-once" // idempotent writes without transactions: a batch may be repeated after a crash
)

// Config has the brokers, and how to write. Only Brokers, TopicPrefix and Cluster are required.
type Config struct {
	Brokers     []string // host:port
	TopicPrefix string
	Cluster     string
	ClusterUID  string   // distinguishes the Kubernetes cluster from others of that name; it never changes
	ClusterIDs  []string // all ids of the Kubernetes cluster: records with one of them are its own too
	Version     string   // kubecdc's own, for the records
	ClientID    string   // default "kubecdc"

	Delivery    string // ExactlyOnce (default) or AtLeastOnce
	Encoding    string // of data records: debezium (default), debezium-schema, cloudevents, object, avro
	Compression string // none, gzip, snappy, lz4, zstd; default: snappy
	// MaxMessageBytes is the largest record batch to send. 0: each topic's max.message.bytes, or Kafka's default of 1 MiB
	// if that may not be read.
	MaxMessageBytes int

	Partitions        int // of topics that the sink creates; default 6
	ReplicationFactor int // of topics that the sink creates; 0 or -1: the broker's default
	// History is how long topics that the sink creates keep every change; after that they keep the last state of each object.
	// sinks.Forever: no change is dropped. Default a week.
	History time.Duration
	// TopicConfig is set on topics that the sink creates; it overrides what follows from History.
	TopicConfig map[string]string

	Expiring bool // data topics may have a limit of time or size, which removes objects that live

	Audit bool // audit events are taken in: their topic is checked too

	Pin Pin // nil: all partitions that a topic has are used

	// Protocol2: transactions are made by protocol 2 (KIP-890), where all brokers do so.
	Protocol2 bool
	// TransactionTimeout: the coordinator aborts a transaction that is open for longer, and the slot must be opened again.
	// read_committed consumers wait as long for the transaction of an exporter that died. Default 1 minute.
	TransactionTimeout time.Duration
	// RequestTimeout is how long to wait for an answer before the request is sent again. Default 20 seconds.
	RequestTimeout time.Duration

	TLS  func() (*tls.Config, error) // called for each connection, so that files may be renewed; nil: plaintext
	SASL SASL

	// Registry has the schemas of the encoding avro; without URLs there is none. Schemas has those that records should have; nil:
	// records are only read.
	Registry registry.Options
	Schemas  encoding.Schemas

	Logger   *slog.Logger   // default slog.Default()
	Observer sinks.Observer // default: nobody
}

// Pin stores how many partitions of a topic are written to, for all processes and restarts. found is how many it has; created:
// the topic was just created.
type Pin func(ctx context.Context, topic string, found int, created bool) (use int, err error)

// SASL is how to log in. Without a Mechanism there is no login.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM
	Username  string
	Password  string

	PasswordFile string // replaces Password; read at each login, so that it may be renewed

	OAuth     OAuth  // of OAUTHBEARER
	AWSRegion string // of AWS_MSK_IAM
}

// OAuth says where tokens come from: a file, or the token endpoint at TokenURL.
type OAuth struct {
	TokenFile                      string // read at each login
	TokenURL, ClientID, SecretFile string
	Scope                          string
	CAFile                         string // whom to trust for TokenURL; empty: the system's authorities
	Extensions                     map[string]string
}

// String keeps the password out of logs.
func (s SASL) String() string { return strings.TrimSuffix(s.Mechanism+" as "+s.Username, " as ") }

// GoString keeps the password out of %#v.
func (s SASL) GoString() string { return s.String() }

// LogValue keeps the password out of structured logs.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

const (
	// DefaultLimit is Kafka's default of message.max.bytes.
	DefaultLimit = 1048588
	// Week is how long topics keep every change by default.
	Week = 7 * 24 * time.Hour
)

// TransactionalID names a slot's writer. The cluster's uid is part of it, so that another cluster of the same name is not fenced.
func (c *Config) TransactionalID(uid string, slot int) string {
	return fmt.Sprintf("%s%s-slot-%d", c.TransactionalPrefix(), uid, slot)
}

// TransactionalPrefix is what all transactional ids of the cluster begin with.
func (c *Config) TransactionalPrefix() string { return c.TopicPrefix + "-" + c.Cluster + "-" }

// SetDefaults sets what was left out.
func (c *Config) SetDefaults() {
	c.Delivery = cmp.Or(c.Delivery, ExactlyOnce)
	c.Encoding = cmp.Or(c.Encoding, encoding.Debezium)
	c.ClientID = cmp.Or(c.ClientID, "kubecdc")
	c.Version = cmp.Or(c.Version, "dev")
	c.Partitions = cmp.Or(c.Partitions, 6)
	c.ReplicationFactor = cmp.Or(c.ReplicationFactor, -1)
	c.History = cmp.Or(c.History, Week)
	c.TransactionTimeout = cmp.Or(c.TransactionTimeout, time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 20*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Pin == nil {
		c.Pin = func(_ context.Context, _ string, found int, _ bool) (int, error) { return found, nil }
	}
	if c.Observer == nil {
		c.Observer = sinks.NoObserver{}
	}
}

// Validate refuses what no sink can be made of. What users may set is checked where they set it.
func (c *Config) Validate() error {
	switch {
	case len(c.Brokers) == 0 || slices.Contains(c.Brokers, ""):
		return errors.New("Brokers: at least one host:port is needed, and no entry may be empty")
	case c.TopicPrefix == "" || !strings.HasPrefix(change.ControlTopic(c.TopicPrefix), c.TopicPrefix+".control"):
		return fmt.Errorf("TopicPrefix: %q: a topic must have a name, of letters, digits, '.', '_' and '-' only", c.TopicPrefix)
	case c.Cluster == "":
		return errors.New("Cluster: must not be empty")
	case c.Delivery != "" && c.Delivery != ExactlyOnce && c.Delivery != AtLeastOnce:
		return fmt.Errorf("Delivery: %q is neither %s nor %s", c.Delivery, ExactlyOnce, AtLeastOnce)
	case c.Encoding != "" && encoding.NewSet(encoding.AvroOptions{})[c.Encoding] == nil:
		return fmt.Errorf("Encoding: %q is none", c.Encoding)
	case c.Encoding == encoding.Avro && len(c.Registry.URLs) == 0:
		return errors.New("Registry: avro needs a schema registry")
	}
	return nil
}
