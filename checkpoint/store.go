// Package checkpoint keeps what the exporter must remember: how far each stream is complete (positions), what was last emitted
// of each live object (inventory), who owns each slot (epochs), and the history of checkpoints. It follows the sink's log and
// never runs ahead of it. A log that remembers positions, objects and history itself leaves it the rest. It calls neither the API server
// nor the sink: its callers tell it what it keeps of them (identities, topics and their partitions, bodies).
package checkpoint

import "context"

// Store is a checkpoint store, bound to one cluster. Implementations are safe for concurrent use, and pass one contract suite
// (test/checkpointtest). Callers ask for the parts that they need.
type Store interface {
	Pins                                            // what it is bound to
	Topology                                        // over how many slots the streams are spread
	Leases                                          // who owns which slot
	State                                           // how far each stream is, and what the log has of it
	Signals                                         // what users ask of running exporters
	Overview                                        // what a status shows
	Find(ctx context.Context, cluster string) error // Past's
	Close()
}
