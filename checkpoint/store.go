// Package checkpoint stores what the exporter must remember. That is how far each stream is complete (positions), what was last
// emitted of each live object (inventory), who owns each slot (epochs), and the history of checkpoints. It follows the sink's log
// and is never ahead of it. If a log itself remembers positions, objects and history, the checkpoint stores the rest. It calls
// neither the API server nor the sink: its callers give it what it stores of them.
package checkpoint

import "context"

// Store is a checkpoint store that is bound to one cluster. Implementations are safe for concurrent use, and pass one contract
// suite (test/checkpointtest). Callers use the smaller interfaces that they need.
type Store interface {
	Pins                                            // what it is bound to
	Topology                                        // the number of slots
	Leases                                          // the owner of each slot
	State                                           // positions, and what the log has
	Signals                                         // requests to running exporters
	Overview                                        // what a status shows
	Find(ctx context.Context, cluster string) error // as in Past
	Close()
}

// InPlace returns an error if the file of a store was removed, moved or replaced. A store without a file is always in its place.
func InPlace(store any) error {
	if file, ok := store.(interface{ InPlace() error }); ok {
		return file.InPlace()
	}
	return nil
}
