package checkpoint

import (
	"context"

	"kubecdc/change"
)

// Pins are what a store notes when it is first told, and gives or insists on from then on.
type Pins interface {
	// Bind ties the store to a cluster: the first time it notes the identity that was found; later it refuses another
	// one with *OtherClusterError (Binding.Meet), and notes what it learns. All other calls speak of this cluster.
	Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (Binding, error)
	// BindLog ties the cluster's checkpoint to the log that it tells of, by the name that sinks.Sink.Identity gives:
	// the first time it notes it; later it refuses another one with *OtherLogError.
	BindLog(ctx context.Context, log string) error
	// PinPartitions gives how many partitions of a topic are to be written to: as many as were found the first time,
	// or since it was made anew. That there are more now changes nothing, so that every key stays on its partition.
	PinPartitions(ctx context.Context, topic string, found int, anew bool) (int, error)
	// HashKey gives the key that hashes are made with: the first call ever notes the one offered, later ones give that.
	HashKey(ctx context.Context, offered []byte) ([]byte, error)
}
