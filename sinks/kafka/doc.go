// Package kafka writes the log to Apache Kafka. A batch is one transaction: the records of its changes, then
// its control records, last the "batch" record that says which positions it moves to and where its records
// stand. So what a reader of committed records sees is whole batches, and the next owner of a slot finds in the
// log itself how far it is.
//
// The protocol comes from github.com/segmentio/kafka-go (connections, requests, routing), record batches from
// internal/recordbatch; sequence numbers and transactions are made here. The package knows nothing of Kubernetes but
// the change package, and nothing of checkpoints but sinks.Durable and Pin.
package kafka
