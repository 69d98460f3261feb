// Package logread turns the records of Kafka's topics into what was logged. These are changes from the data topics, control
// records from the control topic, and batches with the ranges of their records. It leaves out records of aborted transactions, of
// unfinished batches, of other clusters and of other programs. A record of a newer release is an error.
//
// It is the only reader of the log. Owners that take over a slot, and commands that ask about the past, select what they need. It
// knows nothing of either, and writes nothing.
package logread

import (
	"context"
	"slices"
	"sync"

	"kubecdc/change"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/cluster"
)

// Log is the log of one cluster, or of all, in the topics of one prefix.
type Log struct {
	Client     *cluster.Client
	Encodings  encoding.Set
	Envelope   change.Envelope // with the cluster's name (empty: all clusters) and the topics' prefix
	ClusterUID string          // empty: any cluster with the name
	ClusterIDs []string        // other ids of the cluster

	passedBy sync.Map // kinds of other records in the control topic that were warned of
}

// Owns reports whether a record with this cluster uid belongs to the cluster.
func (l *Log) Owns(uid string) bool {
	return uid == "" || l.ClusterUID == "" || uid == l.ClusterUID || slices.Contains(l.ClusterIDs, uid)
}

// Has reports whether a record with this cluster's name is in the log.
func (l *Log) Has(cluster string) bool {
	return l.Envelope.Cluster == "" || l.Envelope.Cluster == cluster
}

// ControlTopic returns the topic of the control records.
func (l *Log) ControlTopic() string { return change.ControlTopic(l.Envelope.Prefix) }

// IsData reports whether a topic is for changes.
func (l *Log) IsData(topic string) bool { return change.IsDataTopic(l.Envelope.Prefix, topic) }

// Topics returns the existing data topics.
func (l *Log) Topics(ctx context.Context) (topics []string, err error) {
	err = l.Client.Try(ctx, "list the topics "+l.Envelope.Prefix+".*", func(ctx context.Context) error {
		topics, err = l.Client.Topics(ctx)
		return err
	})
	return slices.DeleteFunc(topics, func(topic string) bool { return !l.IsData(topic) }), err
}
