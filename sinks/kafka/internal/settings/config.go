// Package settings has how to reach Kafka, and what to write there: the sink's configuration with its defaults and checks,
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

// Config is the sink's configuration. Only Brokers, TopicPrefix and Cluster are required.
type Config struct {
	Brokers     []string // host:port
	TopicPrefix string
	Cluster     string
	ClusterUID  string   // distinguishes Kubernetes clusters with the same name; it never changes
	ClusterIDs  []string // all ids of the Kubernetes cluster: records with one of them are its own
	Version     string   // kubecdc's version, for the records
	ClientID    string   // default "kubecdc"

	Delivery    string // ExactlyOnce (default) or AtLeastOnce
	Encoding    string // debezium (default), debezium-schema, cloudevents, object, avro
	Compression string // none, gzip, snappy, lz4, zstd; default: snappy
	// MaxMessageBytes is the largest record batch to send. 0 means each topic's max.message.bytes, or Kafka's default of 1 MiB
	// without the right to read that.
	MaxMessageBytes int

	Partitions        int // for new topics, default 6
	ReplicationFactor int // for new topics, or 0 or -1 for the broker's default
	// History is how long topics that the sink creates retain every change. After that they retain each object's last state. With
	// sinks.Forever no change is dropped. The default is a week.
	History time.Duration
	// TopicConfig is set on topics that the sink creates. It overrides what History implies.
	TopicConfig map[string]string

	Expiring bool // data topics may have a limit of time or size, which removes live objects

	Audit bool // audit events are accepted, so their topic is checked, too

	Pin Pin // nil: use all partitions of a topic

	// Protocol2 makes transactions by protocol 2 (KIP-890), if all brokers do so.
	Protocol2 bool
	// TransactionTimeout is when the coordinator aborts an open transaction, and the slot must be opened again. read_committed
	// consumers wait as long for the transaction of an exporter that died. The default is 1 minute.
	TransactionTimeout time.Duration
	// RequestTimeout is how long to wait for an answer before a request is sent again. The default is 20 seconds.
	RequestTimeout time.Duration

	TLS  func() (*tls.Config, error) // called for each connection, so that files may be renewed. nil means plaintext
	SASL SASL

	// Registry is the schema registry of the encoding avro. Without URLs there is none. Schemas has the schemas of new records.
	// If it is nil, records are only read.
	Registry registry.Options
	Schemas  encoding.Schemas

	Logger   *slog.Logger   // default slog.Default()
	Observer sinks.Observer // default: none
}

// Pin returns how many partitions of a topic to write to. That is the number of the first call, which it stores for all
// processes and restarts. found is how many partitions exist. created means that the topic was just created, so that found
// replaces the stored number.
type Pin func(ctx context.Context, topic string, found int, created bool) (use int, err error)

// SASL is how to log in. Without a Mechanism there is no login.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM
	Username  string
	Password  string

	PasswordFile string // replaces Password, and is read at each login, so that it may be renewed

	OAuth     OAuth  // for OAUTHBEARER
	AWSRegion string // for AWS_MSK_IAM
}

// OAuth is the source of tokens: a file, or the token endpoint at TokenURL.
type OAuth struct {
	TokenFile                      string // read at each login
	TokenURL, ClientID, SecretFile string
	Scope                          string
	CAFile                         string // authorities to trust for TokenURL, by default the system's
	Extensions                     map[string]string
}

// String leaves out the password, so that logs do not contain it.
func (s SASL) String() string { return strings.TrimSuffix(s.Mechanism+" as "+s.Username, " as ") }

// GoString leaves out the password for %#v.
func (s SASL) GoString() string { return s.String() }

// LogValue leaves out the password in structured logs.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

const (
	// DefaultLimit is Kafka's default of message.max.bytes.
	DefaultLimit = 1048588
	// Week is how long topics retain every change by default.
	Week = 7 * 24 * time.Hour
)

// TransactionalID returns the name of a slot's writer. It contains the cluster's uid, so that another cluster with the same name
// is not fenced.
func (c *Config) TransactionalID(uid string, slot int) string {
	return fmt.Sprintf("%s%s-slot-%d", c.TransactionalPrefix(), uid, slot)
}

// TransactionalPrefix returns the prefix of all transactional ids of the cluster.
func (c *Config) TransactionalPrefix() string { return c.TopicPrefix + "-" + c.Cluster + "-" }

// SetDefaults sets the defaults of empty fields.
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

// Validate refuses a configuration that no sink can use. The settings of users are checked where they are read.
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
