// Package config reads the exporter's settings from the environment and from flags of the same meaning. It checks all of them at once,
// and reports each wrong one with a fix. One struct has everything in its tags: each setting's name, default, bounds and help text. The
// flags, --help and docs/settings.md are made from them. The package does not know how the settings are used, and opens no connection.
package config

import "time"

// Config holds every setting. Each field is a group, and its tag is the group's title. The tags of a group's fields:
//
//	env         the environment variable; the flag is derived from it (see Setting.Flag)
//	envDefault  the default
//	help        what it does, its unit, and when to change it
//	example     a value to copy
//	values      the allowed values, if they are few
//	min, max    bounds, in the notation of the value
//	with        another setting, and its values with which this one has an effect; a group's is that of all its fields
//	required    with these values it must be set
type Config struct {
	Source     Source     `group:"Source"`
	Sink       Sink       `group:"Sink"`
	Kafka      Kafka      `group:"Kafka" with:"KUBECDC_SINK=kafka"`
	Registry   Registry   `group:"Schema registry"`
	Checkpoint Checkpoint `group:"Checkpoint"`
	Records    Records    `group:"Records"`
	Recovery   Recovery   `group:"Recovery after a gap"`
	Slots      Slots      `group:"Slots"`
	Batch      Batch      `group:"Batches and memory"`
	Process    Process    `group:"Process"`
	HTTP       HTTP       `group:"Status page and metrics"`
	Audit      Audit      `group:"Audit events" with:"KUBECDC_SINK=kafka,sqlite,postgres"`
}

// Source selects the cluster and the collections to watch.
type Source struct {
	Kubeconfig    string        `env:"KUBECONFIG" help:"Path of the kubeconfig, or several, as for kubectl. Default: ~/.kube/config, else the Pod's ServiceAccount." example:"$HOME/.kube/config"`
	Context       string        `env:"KUBECDC_CONTEXT" help:"Context of the kubeconfig. Default: the current one." example:"prod-eu1"`
	Cluster       string        `env:"KUBECDC_CLUSTER" help:"Name of the cluster in records and checkpoints. Another name begins another log. Default: the context's name, or in a Pod k8s- and 8 characters of the uid of namespace kube-system." example:"prod-eu1"`
	Resources     List          `env:"KUBECDC_RESOURCES" envDefault:"*,!leases.coordination.k8s.io" help:"Resources to export: plural, group and perhaps version (pods, deployments.apps, deployments.v1.apps), or a pattern (*.example.com, *). A pattern includes resources that are installed later, and never Secrets, which must be named. An entry with ! in front leaves a resource out, wherever it stands. * alone adds Leases, nine of ten changes." example:"pods,deployments.apps"`
	Namespaces    List          `env:"KUBECDC_NAMESPACES" help:"Namespaces to export, without cluster-scoped resources. Default: everything. An existing log accepts more or fewer namespaces, but no change from or to everything." example:"default,shop"`
	LabelSelector string        `env:"KUBECDC_LABEL_SELECTOR" help:"Export only objects with these labels, as for kubectl. Another selector needs another log." example:"app=shop,tier!=test"`
	FieldSelector string        `env:"KUBECDC_FIELD_SELECTOR" help:"Export only objects with these fields, which every selected resource must support. Another selector needs another log." example:"metadata.namespace!=kube-system"`
	PageSize      int           `env:"KUBECDC_PAGE_SIZE" envDefault:"500" min:"1" max:"10000" help:"Objects per page of a list. Smaller pages take less memory and more requests."`
	List          string        `env:"KUBECDC_LIST" envDefault:"auto" values:"auto,stream,pages" help:"How lists are read. stream: as streaming lists (KEP-3157), or in pages if the API server has none. auto: stream if the API server is far away (20 ms or more), except for Events and aggregated resources."`
	Compression   string        `env:"KUBECDC_COMPRESSION" envDefault:"auto" values:"auto,gzip,none" help:"Whether lists come compressed, which saves two thirds of the bytes for CPU on both sides. auto: if the API server is far away (20 ms or more)."`
	Proofs        time.Duration `env:"KUBECDC_PROOF_INTERVAL" envDefault:"10m" min:"0s" max:"168h" help:"How often each stream is compared with the API server, by a list of metadata (large collections less often). Raise it to spare the API server. 0s: never."`
	Watermarks    time.Duration `env:"KUBECDC_WATERMARK_INTERVAL" envDefault:"1m" min:"1s" max:"1h" help:"How often the log states how far each quiet stream is complete. Below a minute each watch is reopened this often."`
}

// Sink selects where the log is written.
type Sink struct {
	Kind          string  `env:"KUBECDC_SINK" envDefault:"sqlite" values:"sqlite,kafka,postgres,stdout" help:"Where changes are written. sqlite: into the checkpoint's file. stdout: a line per change, JSON unless on a terminal. It can't be read back."`
	SQLiteHistory History `env:"KUBECDC_SQLITE_HISTORY" with:"KUBECDC_SINK=sqlite" envDefault:"720h" min:"1h" help:"How long the file retains every change. It always retains the last state of each object."`
	SQLiteMaxSize Bytes   `env:"KUBECDC_SQLITE_MAX_SIZE" with:"KUBECDC_SINK=sqlite" envDefault:"4GiB" min:"16MiB" help:"Size of the file. The oldest changes are removed first, but never changes of the last ten minutes, nor the last state of an object."`
	Postgres      DSN     `env:"KUBECDC_SINK_POSTGRES" with:"KUBECDC_SINK=postgres" required:"yes" help:"URL of the database that changes are written to." example:"postgres://kubecdc@db.example.com/cdc?sslmode=verify-full"`
	History       History `env:"KUBECDC_SINK_POSTGRES_HISTORY" with:"KUBECDC_SINK=postgres" envDefault:"forever" min:"24h" help:"How long every change is retained, rounded up to a partition (a day, a week or four weeks). The last state of each object remains. The user must own the tables." example:"720h"`
	PasswordFile  string  `env:"KUBECDC_SINK_POSTGRES_PASSWORD_FILE" with:"KUBECDC_SINK=postgres" help:"File with the password, instead of one in the URL." example:"/etc/kubecdc/sink-password"`
	SpoolSize     Quota   `env:"KUBECDC_SPOOL_SIZE" with:"KUBECDC_SINK=kafka,postgres" envDefault:"1GiB" help:"Disk for changes while the sink takes none, of all slots together. They are written to the sink once it answers. When it is used up, nothing is read. off: nothing is read while the sink takes no changes, and the API server forgets after about five minutes."`
	SpoolDir      string  `env:"KUBECDC_SPOOL_DIR" with:"KUBECDC_SINK=kafka,postgres" help:"Folder of the spool, on a disk of this machine. Default: the user's state folder. Without one there is no spool." example:"/var/lib/kubecdc"`
}

// Kafka configures how the Kafka sink connects and writes.
type Kafka struct {
	Brokers            List          `env:"KUBECDC_KAFKA_BROKERS" required:"yes" help:"Bootstrap brokers, as host:port." example:"kafka-1:9092,kafka-2:9092"`
	TopicPrefix        string        `env:"KUBECDC_KAFKA_TOPIC_PREFIX" envDefault:"kubecdc" help:"Prefix of all topics. Another prefix is another log, and needs another checkpoint."`
	Partitions         int           `env:"KUBECDC_KAFKA_PARTITIONS" envDefault:"6" min:"1" max:"10000" help:"Partitions of each topic that the exporter creates (PREFIX.control has one). Choose it for your consumers: partitions added later are empty."`
	ReplicationFactor  int           `env:"KUBECDC_KAFKA_REPLICATION_FACTOR" envDefault:"-1" min:"-1" max:"100" help:"Replicas of each topic that the exporter creates. -1: the broker's default."`
	TopicSettings      List          `env:"KUBECDC_KAFKA_TOPIC_CONFIG" help:"Settings of the topics that the exporter creates, with Kafka's names, except for retention. Existing topics are not changed." example:"max.message.bytes=4194304,min.insync.replicas=2"`
	Compression        string        `env:"KUBECDC_KAFKA_COMPRESSION" envDefault:"snappy" values:"none,gzip,snappy,lz4,zstd" help:"Compression of record batches. zstd leaves half the bytes of snappy for four times its CPU. docs/consumers.md lists what clients read."`
	History            History       `env:"KUBECDC_KAFKA_HISTORY" envDefault:"168h" min:"1h" help:"How long the topics that the exporter creates retain every change. Then they are compacted. Existing topics are not changed." example:"forever"`
	Expiring           string        `env:"KUBECDC_KAFKA_EXPIRING_TOPICS" envDefault:"refuse" values:"refuse,accept" help:"Whether changes are written to an existing topic from which Kafka removes records by age or size (docs/records.md). refuse: its resource is not exported. accept: each removal is a gap, and live objects are written again."`
	Delivery           string        `env:"KUBECDC_KAFKA_DELIVERY" envDefault:"exactly-once" values:"exactly-once,at-least-once" help:"exactly-once: a batch is a transaction, and consumers need isolation.level=read_committed. at-least-once: faster, but a crash may repeat changes."`
	TransactionTimeout time.Duration `env:"KUBECDC_KAFKA_TRANSACTION_TIMEOUT" envDefault:"60s" min:"1s" max:"24h" help:"How long a transaction may be open, up to the brokers' transaction.max.timeout.ms (15 minutes). After a longer outage the batch is written again: raise it if that happens often. Lower it if consumers wait this long for an exporter that died."`
	Protocol           int           `env:"KUBECDC_KAFKA_TRANSACTION_PROTOCOL" envDefault:"1" min:"1" max:"2" help:"2: transactions of brokers from 4.0 (KIP-890), with one round trip less. Older brokers get 1. With Kafka 4.1.1 and 4.4.0 a slot whose topic is deleted and made again while it writes may then wait until the broker is restarted."`
	MaxMessageBytes    Bytes         `env:"KUBECDC_KAFKA_MAX_MESSAGE_BYTES" min:"1KiB" max:"1GiB" help:"Largest record to send. A larger one becomes a dead letter. Default: the broker's limit (message.max.bytes)." example:"1MiB"`

	TLS           Switch `env:"KUBECDC_KAFKA_TLS" envDefault:"off" help:"Connect with TLS."`
	TLSCA         string `env:"KUBECDC_KAFKA_TLS_CA" help:"PEM file of the authorities to trust. Default: the system's." example:"/etc/kafka/ca.crt"`
	TLSCert       string `env:"KUBECDC_KAFKA_TLS_CERT" help:"PEM file of the client certificate." example:"/etc/kafka/tls.crt"`
	TLSKey        string `env:"KUBECDC_KAFKA_TLS_KEY" help:"PEM file of the client certificate's key." example:"/etc/kafka/tls.key"`
	TLSServerName string `env:"KUBECDC_KAFKA_TLS_SERVER_NAME" help:"Host name to expect in the brokers' certificates. Default: the one that is dialled." example:"kafka.example.com"`

	SASLMechanism    string `env:"KUBECDC_KAFKA_SASL_MECHANISM" values:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM" help:"How to log in. OAUTHBEARER: with a token, from a file or a token endpoint. AWS_MSK_IAM: with credentials that AWS' SDK finds. Default: no login." example:"SCRAM-SHA-512"`
	SASLUsername     string `env:"KUBECDC_KAFKA_SASL_USERNAME" with:"KUBECDC_KAFKA_SASL_MECHANISM=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" help:"SASL user name." example:"kubecdc"`
	SASLPassword     Secret `env:"KUBECDC_KAFKA_SASL_PASSWORD" with:"KUBECDC_KAFKA_SASL_MECHANISM=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" help:"SASL password. Prefer the environment or a file: other users can see flags."`
	SASLPasswordFile string `env:"KUBECDC_KAFKA_SASL_PASSWORD_FILE" with:"KUBECDC_KAFKA_SASL_MECHANISM=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" help:"File with the SASL password." example:"/etc/kafka/password"`

	OAuthTokenFile  string `env:"KUBECDC_KAFKA_OAUTH_TOKEN_FILE" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"File with the token for OAUTHBEARER." example:"/var/run/secrets/kafka/token"`
	OAuthTokenURL   string `env:"KUBECDC_KAFKA_OAUTH_TOKEN_URL" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"Token endpoint for OAUTHBEARER, asked with the client credentials grant (RFC 6749, 4.4)." example:"https://login.example.com/oauth2/token"`
	OAuthClientID   string `env:"KUBECDC_KAFKA_OAUTH_CLIENT_ID" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"Client id at the token endpoint." example:"kubecdc"`
	OAuthSecretFile string `env:"KUBECDC_KAFKA_OAUTH_CLIENT_SECRET_FILE" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"File with the client secret." example:"/etc/kafka/client-secret"`
	OAuthScope      string `env:"KUBECDC_KAFKA_OAUTH_SCOPE" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"Scopes to ask the token endpoint for, with blanks between." example:"kafka"`
	OAuthCA         string `env:"KUBECDC_KAFKA_OAUTH_CA" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"PEM file of the authorities to trust for the token endpoint. Default: the system's." example:"/etc/kafka/oauth-ca.crt"`
	OAuthExtensions List   `env:"KUBECDC_KAFKA_OAUTH_EXTENSIONS" with:"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER" help:"SASL extensions to send with the token, as NAME=VALUE. Confluent Cloud needs logicalCluster and identityPoolId." example:"logicalCluster=lkc-1,identityPoolId=pool-1"`
	AWSRegion       string `env:"KUBECDC_KAFKA_AWS_REGION" with:"KUBECDC_KAFKA_SASL_MECHANISM=AWS_MSK_IAM" help:"AWS region of the MSK cluster. Default: AWS_REGION, which EKS sets in Pods." example:"eu-west-1"`
}

// Registry configures the schema registry of the encoding avro.
type Registry struct {
	URLs         List   `env:"KUBECDC_SCHEMA_REGISTRY_URL" help:"URLs of a schema registry with Confluent's API, to write and read avro." example:"https://registry.example.com:8081"`
	Username     string `env:"KUBECDC_SCHEMA_REGISTRY_USERNAME" help:"User name (HTTP basic authentication). Default: no login." example:"kubecdc"`
	Password     Secret `env:"KUBECDC_SCHEMA_REGISTRY_PASSWORD" help:"Password. Prefer the environment or a file: other users can see flags."`
	PasswordFile string `env:"KUBECDC_SCHEMA_REGISTRY_PASSWORD_FILE" help:"File with the password." example:"/etc/kubecdc/registry-password"`
	CA           string `env:"KUBECDC_SCHEMA_REGISTRY_CA" help:"PEM file of the authorities to trust. Default: the system's." example:"/etc/kubecdc/registry-ca.crt"`
}

// DefaultListen is KUBECDC_LISTEN outside a Pod. If another process uses it, another port is chosen.
const DefaultListen = "127.0.0.1:8080"

// Checkpoint configures where progress is stored.
type Checkpoint struct {
	Location     DSN           `env:"KUBECDC_CHECKPOINT" help:"Where progress is stored: postgres://USER@HOST/DB, or sqlite:PATH for a single process. Default: an SQLite file in the user's state folder." example:"postgres://kubecdc@db.example.com/kubecdc"`
	PasswordFile string        `env:"KUBECDC_CHECKPOINT_PASSWORD_FILE" help:"File with Postgres' password, instead of one in the URL." example:"/etc/kubecdc/checkpoint-password"`
	Interval     time.Duration `env:"KUBECDC_CHECKPOINT_INTERVAL" envDefault:"1s" min:"0s" max:"1m" help:"How often the checkpoint follows a log in Kafka. After a crash as much is read back. 0s: with each batch."`
	Retention    time.Duration `env:"KUBECDC_HISTORY_RETENTION" envDefault:"168h" min:"1m" help:"How long earlier checkpoints are retained, for exporter checkpoints and replay. A log in SQLite has them for its history."`
}

// Records configures what records contain.
type Records struct {
	Encoding       string `env:"KUBECDC_ENCODING" with:"KUBECDC_SINK=kafka" envDefault:"debezium" values:"debezium,debezium-schema,cloudevents,object,avro" help:"How the Kafka data topics are written (docs/encodings.md). object: the object alone. avro: with a schema registry."`
	Before         string `env:"KUBECDC_BEFORE" with:"KUBECDC_SINK=kafka,postgres,stdout" envDefault:"full" values:"full,none" help:"full: updates and deletes carry the object as it was before, which consumers such as Flink need. none: faster and smaller."`
	MetadataOnly   List   `env:"KUBECDC_METADATA_ONLY" help:"Resources of which only metadata is exported, as in KUBECDC_RESOURCES, but here a pattern includes Secrets." example:"configmaps,*.example.com"`
	Secrets        string `env:"KUBECDC_SECRETS" envDefault:"hash" values:"hash,metadata,plain" help:"What is exported of Secrets, if KUBECDC_RESOURCES names them. hash: a keyed hash of each value. metadata: no values. plain: everything."`
	SecretsKey     Secret `env:"KUBECDC_SECRETS_KEY" help:"Key of the hashes, at least 16 bytes. Prefer the environment or a file: other users can see flags. Default: a random key in the checkpoint."`
	SecretsKeyFile string `env:"KUBECDC_SECRETS_KEY_FILE" help:"File with the key of the hashes." example:"/etc/kubecdc/hash-key"`
	ManagedFields  string `env:"KUBECDC_MANAGED_FIELDS" envDefault:"keep" values:"keep,drop" help:"drop: leave out metadata.managedFields, a quarter to a half of most objects. Records then have no source.managers, and mostly the exporter's time."`
	IgnoreFields   List   `env:"KUBECDC_IGNORE_FIELDS" help:"Fields to ignore in updates, written as for KUBECDC_REDACT. An update that changes nothing else (but resourceVersion, generation and managedFields) is not written. Needs KUBECDC_BEFORE=full." example:"nodes:status.conditions.*.lastHeartbeatTime"`
	Ops            List   `env:"KUBECDC_OPS" envDefault:"c,u,d,r" help:"Changes to write: c (created), u (updated), d (deleted), r (read by the first list). Only u can be left out." example:"c,d,r"`
	Redact         List   `env:"KUBECDC_REDACT" help:"Fields to replace by keyed hashes, each as RESOURCE:PATH (docs/security.md)." example:"configmaps:data.password,pods:spec.containers.env.value"`
}

// Recovery configures how much effort goes into recovering a gap.
type Recovery struct {
	Backfill             Switch  `env:"KUBECDC_BACKFILL" envDefault:"on" help:"After a gap, read the missed revisions that the API server still has. off: only compare a list, which shows fewer changes."`
	BackfillMaxQPS       float64 `env:"KUBECDC_BACKFILL_MAX_QPS" envDefault:"1000" min:"1" max:"10000" help:"Most requests a second of all recoveries, which begin with 100 and adapt to the API server. Lower it if they disturb other clients. Raise it if gaps are not recovered before etcd is compacted."`
	BackfillMaxRevisions int     `env:"KUBECDC_BACKFILL_MAX_REVISIONS" envDefault:"100000" min:"1" max:"2000000000" help:"Longest gap, in revisions, that is recovered. A longer one is closed by a list. Lower it to bound a recovery's time."`
}

// Slots configures how streams are shared among replicas.
type Slots struct {
	Count         int           `env:"KUBECDC_SLOTS" envDefault:"1" min:"1" max:"1024" help:"Number of slots, the same for all replicas. Use at least as many as replicas should share the work."`
	LeaseDuration time.Duration `env:"KUBECDC_LEASE_DURATION" envDefault:"10s" min:"1s" max:"10m" help:"How long an owner may be silent before others take its slots. Shorter: faster takeover, more heartbeats, and a slow checkpoint costs slots sooner."`
}

// Batch bounds the size of a batch, and what is held in memory.
type Batch struct {
	MaxChanges    int           `env:"KUBECDC_BATCH_MAX_CHANGES" envDefault:"1000" min:"1" max:"1000000" help:"Most changes in a batch. Larger batches take less CPU a change and more memory."`
	MaxBytes      Bytes         `env:"KUBECDC_BATCH_MAX_BYTES" envDefault:"4MiB" min:"64KiB" max:"1GiB" help:"Size of a batch. Lower it to save memory, or if the checkpoint can't take a batch in time."`
	Linger        time.Duration `env:"KUBECDC_BATCH_LINGER" envDefault:"10ms" min:"0s" max:"1m" help:"Shortest time between two batches, unless the next is full. Raise it for fewer batches, lower it for less latency under load."`
	BufferChanges int           `env:"KUBECDC_BUFFER_CHANGES" envDefault:"10000" min:"1" max:"10000000" help:"Changes that a slot reads ahead while a batch is committed. At least KUBECDC_BATCH_MAX_CHANGES."`
	BufferBytes   Bytes         `env:"KUBECDC_BUFFER_BYTES" envDefault:"8MiB" min:"64KiB" max:"64GiB" help:"Size of the changes that a slot reads ahead: most of the memory under load. At least KUBECDC_BATCH_MAX_BYTES."`
}

// Process configures the process itself.
type Process struct {
	Listen          string        `env:"KUBECDC_LISTEN" help:"Address that serves the status page, /metrics, /healthz and /readyz. off: none. Default: :8080 in a Pod, 127.0.0.1:8080 elsewhere, or another port if that is taken." example:":8080"`
	ShutdownTimeout time.Duration `env:"KUBECDC_SHUTDOWN_TIMEOUT" envDefault:"20s" min:"1s" max:"1h" help:"How long the batch in flight may take after SIGTERM or Ctrl-C. Keep it below terminationGracePeriodSeconds."`
	LogLevel        string        `env:"KUBECDC_LOG_LEVEL" envDefault:"info" values:"debug,info,warn,error" help:"Lowest level of messages to log."`
	LogFormat       string        `env:"KUBECDC_LOG_FORMAT" envDefault:"auto" values:"auto,text,json" help:"Format of the log on stderr. auto: text on a terminal, JSON elsewhere."`
}

// HTTP protects what KUBECDC_LISTEN serves.
type HTTP struct {
	Access    string `env:"KUBECDC_HTTP_ACCESS" envDefault:"open" values:"open,token,kubernetes" help:"Who may read the status page, /metrics, the details of /readyz (docs/monitoring.md), and what exporter serve has (docs/serve.md). token: bearers of KUBECDC_HTTP_TOKEN_FILE. kubernetes: bearers of a token that the API server knows, with the right to get that."`
	TokenFile string `env:"KUBECDC_HTTP_TOKEN_FILE" help:"File with the bearer token, of at least 16 characters." example:"/etc/kubecdc/http-token"`
	TLSCert   string `env:"KUBECDC_HTTP_TLS_CERT" help:"PEM file of the certificate, with its chain. Probes then need scheme: HTTPS. Default: no TLS." example:"/etc/kubecdc/tls.crt"`
	TLSKey    string `env:"KUBECDC_HTTP_TLS_KEY" help:"PEM file of the certificate's key." example:"/etc/kubecdc/tls.key"`
}

// Audit selects the API server's audit events that are taken in, which say who made each change.
type Audit struct {
	TokenFile string `env:"KUBECDC_AUDIT_TOKEN_FILE" help:"File with the bearer token, of at least 16 characters, of the API server's audit webhook (docs/who.md). Default: no webhook." example:"/etc/kubecdc/audit-token"`
	Files     List   `env:"KUBECDC_AUDIT_FILES" help:"Files with an audit event a line, read as they grow, and rotated ones to their end. * is any part of a name. -: standard input." example:"/var/log/kubernetes/audit*.log"`
	Path      string `env:"KUBECDC_AUDIT_PATH" help:"Where an event is in what a log shipper has wrapped around it: names with dots between (docs/who.md). Lists need no mention, and a text is read as JSON." example:"message"`
	All       Switch `env:"KUBECDC_AUDIT_ALL" envDefault:"off" help:"on: also record requests that changed nothing: refused ones, conflicts and dry runs."`
	Extra     List   `env:"KUBECDC_AUDIT_EXTRA" help:"Members of the users' extra that are recorded. *: all." example:"authentication.kubernetes.io/pod-name"`
	Hide      List   `env:"KUBECDC_AUDIT_HIDE" help:"What is recorded as a keyed hash only: users, groups, addresses. Names that begin with system: are not hashed." example:"addresses"`
}
