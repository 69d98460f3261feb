// Package kafka writes the log to Apache Kafka. A batch is one transaction: the records of its changes and its control
// records, of which the last is the batch record, with the batch's positions and the offsets of its records. So a consumer of
// committed records sees complete batches, and the next owner of a slot finds in the log itself how far it is.
//
// This package is the door, and writes. What records look like is the business of sinks/encoding. What the log says is read by internal/logread alone: for the new owner of a slot
// (internal/takeover) and for commands (internal/reader). internal/admin looks after topics, rights and consumer groups. The
// protocol is in packages that know nothing of kubecdc: internal/cluster sends requests over kafka-go and retries them,
// internal/producer writes in transactions, internal/recordbatch encodes what it sends, internal/consumer reads back what was
// committed. All of it knows nothing of Kubernetes except package change, and nothing of checkpoints except sinks.Durable and
// Pin.
package kafka
