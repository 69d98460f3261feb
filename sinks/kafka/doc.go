// Package kafka writes the log to Apache Kafka. A batch is one transaction with the records of its changes, and its control
// records. The last of these is the batch record, with the batch's positions and the offsets of its records. So a consumer of
// committed records sees complete batches, and the next owner of a slot finds its progress in the log itself.
//
// This package has the exported types, and writes. sinks/encoding defines the form of records. Only internal/logread reads the
// log, for the new owner of a slot (internal/takeover) and for commands (internal/reader). internal/admin manages topics, rights
// and consumer groups.
//
// The packages for the protocol know nothing of kubecdc. internal/cluster sends requests over kafka-go and retries them, and
// internal/producer writes in transactions. internal/recordbatch encodes what it sends, and internal/consumer reads back what was
// committed. All of these packages know nothing of Kubernetes except package change, and nothing of checkpoints except
// sinks.Durable and Pin.
package kafka
