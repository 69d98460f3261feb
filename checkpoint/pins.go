package checkpoint

import (
	"context"

	"kubecdc/change"
)

// Pins are values that a store records at the first call, and demands later.
type Pins interface {
	// Bind binds the store to a cluster. The first call records the identity that was found. Later calls refuse another cluster
	// with *OtherClusterError (Binding.Match), and record what more is known. All other methods are about this cluster.
	Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (Binding, error)
	// BindLog binds the cluster's checkpoint to a log, by the name from sinks.Sink.Identity. The first call records the name.
	// Later calls refuse another name with *OtherLogError.
	BindLog(ctx context.Context, log string) error
	// PinPartitions returns the number of partitions of a topic to write to. This is the number that was found at the first call,
	// or when the topic was created anew. Partitions that were added later are not used, so that every key remains on its
	// partition.
	PinPartitions(ctx context.Context, topic string, found int, anew bool) (int, error)
	// HashKey returns the key of the hashes that replace redacted values. The first call records the offered key. Later calls
	// return that one.
	HashKey(ctx context.Context, offered []byte) ([]byte, error)
}
