// Package checkpoint keeps what the exporter must remember: how far each stream is (positions), what was last
// emitted for each live object (inventory), who owns each slot (epochs), and the history of checkpoints.
// It follows the sink's log and never runs ahead of it. It calls neither the API server nor the sink: what it keeps of them
// (identities, topics and their partitions, bodies) it is told.
package checkpoint

// Store is a checkpoint store, bound to one cluster. Implementations are safe for concurrent use, and pass one contract suite
// (checkpointtest). Whoever needs a part of it asks for that part.
type Store interface {
	Pins     // what it is tied to, for good
	Topology // over how many slots the streams are spread
	Leases   // who owns which slot
	State    // how far each stream is, and what the log has of it
	Close()
}
