package checkpoint

import (
	"context"

	"kubecdc/change"
)

// Pins are values that a store notes the first time, and insists on later.
type Pins interface {
	// Bind binds the store to a cluster. The first time it notes the identity that was found. Later it refuses another one with
	// *OtherClusterError (Binding.Match), and notes what more is known of it. All other calls are about this cluster.
	Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (Binding, error)
	// BindLog binds the cluster's checkpoint to a log, by the name that sinks.Sink.Identity gives. The first time it notes the
	// name; later it refuses another one with *OtherLogError.
	BindLog(ctx context.Context, log string) error
	// PinPartitions gives how many partitions of a topic are to be written to: as many as were found the first time, or when
	// the topic was made anew. Partitions that are added later are not used, so that every key stays on its partition.
	PinPartitions(ctx context.Context, topic string, found int, anew bool) (int, error)
	// HashKey gives the key of the hashes that stand for redacted values. The first call notes the one offered; later calls
	// give that one.
	HashKey(ctx context.Context, offered []byte) ([]byte, error)
}
