// Package config reads the exporter's settings from the environment and from flags of the same meaning, checks
// all of them at once, and says how to mend what is wrong. One struct is the source of everything: its tags give
// each setting's name, default, bounds and help, and the flags, --help and docs/settings.md are derived from it.
// The package knows nothing of how the settings are used; it opens no connection.
package config

import "time"

// Config holds every setting. Each field of it is a group, with its title; the tags of a group's fields are:
//
//	env         the name in the environment; the flag is derived from it (see Setting.Flag)
//	envDefault  the default
//	help        what it does, in a sentence or two
//	example     a value that a person could copy
//	values      what it may be, where that is a short list
//	min, max    bounds, in the field's own notation
type Config struct {
	Source     Source     `group:"What is watched"`
	Sink       Sink       `group:"Where it goes"`
	Kafka      Kafka      `group:"Kafka"`
	Checkpoint Checkpoint `group:"Checkpoint"`
	Records    Records    `group:"Records"`
	Recovery   Recovery   `group:"Recovery after a gap"`
	Slots      Slots      `group:"Slots"`
	Batch      Batch      `group:"Batches and memory"`
	Process    Process    `group:"Process"`
}

// Source says which cluster and which of its collections are watched.
type Source struct {
	Kubeconfig     string        `env:"KUBECONFIG" help:"Path of the kubeconfig, or several as kubectl takes them. Without it: ~/.kube/config, else the Pod's ServiceAccount." example:"$HOME/.kube/config"`
	Context        string        `env:"KUBECDC_CONTEXT" help:"Context of the kubeconfig. Default: its current context." example:"prod-eu1"`
	Cluster        string        `env:"KUBECDC_CLUSTER" help:"Name of the cluster in records and checkpoints. Default: the context's name; in a Pod, where there is none, k8s- and the first 8 characters of the uid of namespace kube-system." example:"prod-eu1"`
	Resources      List          `env:"KUBECDC_RESOURCES" envDefault:"*" help:"What to export: plural, with group and perhaps version (pods, deployments.apps, deployments.v1.apps), or a pattern (*.example.com, *). A pattern also takes in what is installed later, and never Secrets: name secrets to export them. With ! in front it is left out, wherever in the list that stands." example:"*,!leases.coordination.k8s.io"`
	Namespaces     List          `env:"KUBECDC_NAMESPACES" help:"Only these namespaces; cluster-scoped resources are then left out. Default: all." example:"default,shop"`
	LabelSelector  string        `env:"KUBECDC_LABEL_SELECTOR" help:"Only objects with these labels, in kubectl's notation." example:"app=shop,tier!=test"`
	FieldSelector  string        `env:"KUBECDC_FIELD_SELECTOR" help:"Only objects with these fields, in kubectl's notation. Every chosen resource must support them." example:"metadata.namespace!=kube-system"`
	PageSize       int           `env:"KUBECDC_PAGE_SIZE" envDefault:"500" min:"1" max:"10000" help:"Objects a page when a collection is listed. Smaller pages hold less memory and take more requests."`
	StreamingLists string        `env:"KUBECDC_STREAMING_LISTS" envDefault:"auto" values:"auto,on,off" help:"Read snapshots as a stream (sendInitialEvents, KEP-3157). auto: where the server can."`
	Watermarks     time.Duration `env:"KUBECDC_WATERMARK_INTERVAL" envDefault:"1m" min:"1s" max:"1h" help:"How often the log says how far each stream is complete, while nothing changes; all streams of a slot in one batch. From a minute on the API server's own bookmarks serve it. Below that each watch is opened anew so often, since that is what makes the API server say it: at 30s, 200 streams make 6 requests a second."`
}

// Sink says where the log is written.
type Sink struct {
	Kind         string  `env:"KUBECDC_SINK" envDefault:"stdout" values:"stdout,kafka,postgres" help:"Where changes go. stdout: one line a change, coloured on a terminal, JSON elsewhere; there, lines with type instead of op are control records (gap, snapshot-end, stream-error, …)."`
	Postgres     DSN     `env:"KUBECDC_SINK_POSTGRES" help:"URL of the database that takes the changes, when KUBECDC_SINK is postgres." example:"postgres://kubecdc@db.example.com/cdc?sslmode=verify-full"`
	History      History `env:"KUBECDC_SINK_POSTGRES_HISTORY" envDefault:"forever" min:"24h" help:"How long every change stays in the tables changes, batches and control, which are partitioned by the time at which they were written: what is older is dropped, a partition (a day, a week or four weeks) at a time. The current state of each object stays in the table objects. The user must own the tables." example:"720h"`
	PasswordFile string  `env:"KUBECDC_SINK_POSTGRES_PASSWORD_FILE" help:"File that holds the password for KUBECDC_SINK_POSTGRES, in place of one in the URL. It is read at each connect, so it may be renewed." example:"/etc/kubecdc/sink-password"`
}

// Kafka says how the Kafka sink connects and writes.
type Kafka struct {
	Brokers            List          `env:"KUBECDC_KAFKA_BROKERS" help:"Brokers to start from, host:port." example:"kafka-1:9092,kafka-2:9092"`
	TopicPrefix        string        `env:"KUBECDC_KAFKA_TOPIC_PREFIX" envDefault:"kubecdc" help:"Topics are PREFIX.RESOURCE.GROUP, PREFIX.control and PREFIX.dead-letter."`
	Partitions         int           `env:"KUBECDC_KAFKA_PARTITIONS" envDefault:"6" min:"1" max:"10000" help:"Partitions of the topics that the exporter creates; PREFIX.control has one."`
	ReplicationFactor  int           `env:"KUBECDC_KAFKA_REPLICATION_FACTOR" envDefault:"-1" min:"-1" max:"100" help:"Replicas of the topics that the exporter creates; -1 is the broker's default."`
	Compression        string        `env:"KUBECDC_KAFKA_COMPRESSION" envDefault:"zstd" values:"none,gzip,snappy,lz4,zstd" help:"Compression of record batches."`
	History            History       `env:"KUBECDC_KAFKA_HISTORY" envDefault:"168h" min:"1h" help:"How long every change stays in the topics that the exporter creates. After that they are compacted: the last state of each object stays, and deletions stay a day longer. forever: nothing is dropped. Topics that are there are left as they are, with a warning where they differ." example:"forever"`
	Delivery           string        `env:"KUBECDC_KAFKA_DELIVERY" envDefault:"exactly-once" values:"exactly-once,at-least-once" help:"exactly-once: each batch is one transaction; read with isolation.level=read_committed. at-least-once: no transactions, faster, may repeat after a crash."`
	TransactionTimeout time.Duration `env:"KUBECDC_KAFKA_TRANSACTION_TIMEOUT" envDefault:"60s" min:"1s" max:"24h" help:"How long a transaction may stay open before Kafka ends it. When an outage lasts longer, the exporter writes the batch again, and nothing is lost or repeated. When the exporter dies and nothing takes over, readers with isolation.level=read_committed wait this long for what it left open. At most the brokers' transaction.max.timeout.ms, 15 minutes by default."`
	MaxMessageBytes    Bytes         `env:"KUBECDC_KAFKA_MAX_MESSAGE_BYTES" min:"1KiB" max:"1GiB" help:"Largest record to send; larger ones go to the dead-letter topic with a stub in their place. Default: what the broker allows (message.max.bytes)." example:"1MiB"`

	TLS           Switch `env:"KUBECDC_KAFKA_TLS" envDefault:"off" help:"Connect with TLS."`
	TLSCA         string `env:"KUBECDC_KAFKA_TLS_CA" help:"PEM file of the authorities to trust. Default: the system's. This file and the next two are read anew for each connection." example:"/etc/kafka/ca.crt"`
	TLSCert       string `env:"KUBECDC_KAFKA_TLS_CERT" help:"PEM file of the client certificate." example:"/etc/kafka/tls.crt"`
	TLSKey        string `env:"KUBECDC_KAFKA_TLS_KEY" help:"PEM file of the client certificate's key." example:"/etc/kafka/tls.key"`
	TLSServerName string `env:"KUBECDC_KAFKA_TLS_SERVER_NAME" help:"Name to expect in the brokers' certificates. Default: the host that is dialled." example:"kafka.example.com"`
	TLSInsecure   Switch `env:"KUBECDC_KAFKA_TLS_INSECURE_SKIP_VERIFY" envDefault:"off" help:"Accept any certificate. For experiments only."`

	SASLMechanism    string `env:"KUBECDC_KAFKA_SASL_MECHANISM" values:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" help:"How to log in. Default: no login." example:"SCRAM-SHA-512"`
	SASLUsername     string `env:"KUBECDC_KAFKA_SASL_USERNAME" help:"User to log in as." example:"kubecdc"`
	SASLPassword     Secret `env:"KUBECDC_KAFKA_SASL_PASSWORD" help:"Password to log in with. Other users of the machine can see flags: prefer the environment or a file."`
	SASLPasswordFile string `env:"KUBECDC_KAFKA_SASL_PASSWORD_FILE" help:"File that holds the password, in place of KUBECDC_KAFKA_SASL_PASSWORD. It is read at each login, so it may be renewed." example:"/etc/kafka/password"`
}

// Checkpoint says where progress is kept.
type Checkpoint struct {
	Location     DSN           `env:"KUBECDC_CHECKPOINT" help:"Where progress is kept: postgres://USER@HOST/DB, or sqlite:PATH for one process. Default: an SQLite file in the user's state folder, one for each cluster and sink." example:"postgres://kubecdc@db.example.com/kubecdc"`
	PasswordFile string        `env:"KUBECDC_CHECKPOINT_PASSWORD_FILE" help:"File that holds the password for a Postgres checkpoint, in place of one in the URL. It is read at each connect, so it may be renewed." example:"/etc/kubecdc/checkpoint-password"`
	Retention    time.Duration `env:"KUBECDC_HISTORY_RETENTION" envDefault:"168h" min:"1m" help:"How long the history of checkpoints is kept."`
}

// Records says what records hold.
type Records struct {
	Before         string `env:"KUBECDC_BEFORE" envDefault:"full" values:"full,none" help:"full: updates and deletes carry the whole object as it was before. none: they don't; faster, but consumers such as Flink need it."`
	MetadataOnly   List   `env:"KUBECDC_METADATA_ONLY" help:"Resources of which only metadata is exported, named as in KUBECDC_RESOURCES. A pattern covers Secrets too." example:"configmaps,*.example.com"`
	Secrets        string `env:"KUBECDC_SECRETS" envDefault:"hash" values:"hash,metadata,plain" help:"What is told of Secrets, where KUBECDC_RESOURCES names them. hash: each value as a keyed hash, so that it shows when it changes and not what it is. metadata: no values. plain: all. What the checkpoint holds follows at the next start."`
	SecretsKey     Secret `env:"KUBECDC_SECRETS_KEY" help:"Key of the hashes, 16 bytes or more. Default: one that is drawn at the first start and kept in the checkpoint. Other users of the machine can see flags: prefer the environment or a file."`
	SecretsKeyFile string `env:"KUBECDC_SECRETS_KEY_FILE" help:"File that holds the key, in place of KUBECDC_SECRETS_KEY." example:"/etc/kubecdc/hash-key"`
	Redact         List   `env:"KUBECDC_REDACT" help:"Fields that are told as keyed hashes, each as RESOURCE:PATH. A dot that belongs to a name has a backslash before it, * stands for every member, and lists need not be mentioned." example:"configmaps:data.password,pods:spec.containers.env.value"`
}

// Recovery says how hard to try to recover what a watch could not deliver.
type Recovery struct {
	Backfill             Switch  `env:"KUBECDC_BACKFILL" envDefault:"on" help:"After a gap, read the revisions that the API server still keeps, so that nothing between is missing."`
	BackfillQPS          float64 `env:"KUBECDC_BACKFILL_QPS" envDefault:"100" min:"1" max:"10000" help:"Requests a second that a backfill begins with, over all streams of the process. While the API server answers fast it grows by as many each second; at a 429 or a failure it is halved, at a slow answer it loses a quarter."`
	BackfillMaxQPS       float64 `env:"KUBECDC_BACKFILL_MAX_QPS" envDefault:"500" min:"1" max:"10000" help:"Requests a second that it never exceeds."`
	BackfillMaxRevisions int     `env:"KUBECDC_BACKFILL_MAX_REVISIONS" envDefault:"100000" min:"1" max:"2000000000" help:"Longest gap, in revisions, that is recovered one by one; a longer one is closed by comparing lists."`
}

// Slots says how streams are shared out among processes.
type Slots struct {
	Count         int           `env:"KUBECDC_SLOTS" envDefault:"1" min:"1" max:"1024" help:"Streams are spread over this many slots, and the slots over the replicas; each slot has one owner at a time. A change of the number waits until no replica with the former one runs."`
	LeaseDuration time.Duration `env:"KUBECDC_LEASE_DURATION" envDefault:"10s" min:"1s" max:"10m" help:"How long after its owner fell silent a slot may be taken over."`
	Leases        string        `env:"KUBECDC_LEASES" envDefault:"store" values:"store,kubernetes" help:"Where replicas agree on who owns which slot. store: the checkpoint. kubernetes: Lease objects of the cluster. What fences is the checkpoint in both cases. The same for all replicas."`
	Namespace     string        `env:"KUBECDC_LEASES_NAMESPACE" help:"Namespace of the Lease objects, when KUBECDC_LEASES is kubernetes. Default: the Pod's, or default elsewhere." example:"kubecdc"`
}

// Batch bounds what is committed at once and what is held in memory.
type Batch struct {
	MaxChanges    int           `env:"KUBECDC_BATCH_MAX_CHANGES" envDefault:"1000" min:"1" max:"1000000" help:"A batch is committed when it holds this many changes,"`
	MaxBytes      Bytes         `env:"KUBECDC_BATCH_MAX_BYTES" envDefault:"4MiB" min:"64KiB" max:"1GiB" help:"or this many bytes,"`
	Linger        time.Duration `env:"KUBECDC_BATCH_LINGER" envDefault:"10ms" min:"0s" max:"1m" help:"but not sooner than this after the one before, while changes are few."`
	BufferChanges int           `env:"KUBECDC_BUFFER_CHANGES" envDefault:"10000" min:"1" max:"10000000" help:"Changes read ahead, over all streams, while a batch is being committed. When it is full, reading waits."`
	BufferBytes   Bytes         `env:"KUBECDC_BUFFER_BYTES" envDefault:"8MiB" min:"64KiB" max:"64GiB" help:"The same bound in bytes."`
}

// Process says how the process itself behaves.
type Process struct {
	Listen          string        `env:"KUBECDC_LISTEN" envDefault:":8080" help:"Address of /healthz, /readyz and /metrics; off for none." example:"127.0.0.1:8080"`
	StartTimeout    time.Duration `env:"KUBECDC_START_TIMEOUT" envDefault:"0s" min:"0s" max:"24h" help:"How long run waits at its start for the API server, the checkpoint and the sink, before it ends with exit code 1; 0s: for as long as it takes. exporter check waits this long for each, 20s without it."`
	ShutdownTimeout time.Duration `env:"KUBECDC_SHUTDOWN_TIMEOUT" envDefault:"20s" min:"1s" max:"1h" help:"On SIGTERM or Ctrl-C, how long the batch in flight may take to be finished and checkpointed."`
	LogLevel        string        `env:"KUBECDC_LOG_LEVEL" envDefault:"info" values:"debug,info,warn,error" help:"Least important messages to log."`
	LogFormat       string        `env:"KUBECDC_LOG_FORMAT" envDefault:"auto" values:"auto,text,json" help:"Format of the log on stderr. auto: text on a terminal, JSON elsewhere."`
}
