// Package ownership decides which replica works on which slots. There is no leader. Each replica sees the live ones by their
// heartbeats, and all follow the same rule. A replica works only on slots that it could acquire from the store. If it gets no
// answer from the sink or the API server, it leaves its slots to the others.
//
// The package knows nothing of streams, sinks or positions. It starts and stops the work on a slot, and sees when that ends.
package ownership

import (
	"context"
	"log/slog"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
)

// Replica is this process, as one of those that share the slots.
type Replica struct {
	Name            string // name as owner of slots
	Slots           int
	Lease           time.Duration
	Leases          Leases
	Sink, APIServer *Reachability // without either a replica can't work
	Watchdog        *dependency.Watchdog
	Observer        Observer
	Logger          *slog.Logger

	// Keeps reports whether changes of a slot are on this machine, to be written once the sink answers. This replica does not
	// hand over such a slot. It claims other slots only while the sink answers it. Without it, no slot waits on a machine.
	Keeps func(slot int) bool

	// Work is called for each slot that this replica should own. It acquires the slot and works on it until the context ends
	// (nil: drained), another replica holds the slot (nil), or it can't continue.
	Work func(ctx context.Context, slot int) error
}

// Leases stores the heartbeats. The slots' own leases are acquired by Work.
type Leases interface {
	Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error)
	Leave(ctx context.Context, owner string) error
}

// Observer is notified of this replica's status and of its slots' problems.
type Observer interface {
	// ReplicaStatus is called after every heartbeat.
	ReplicaStatus(s Status)
	// Problem reports the error that blocks a slot. It reports nil when the slot continues, or when this replica does not work on
	// it any more.
	Problem(slot int, err error)
}

// Status is this replica's part among all replicas.
type Status struct {
	Replicas int            // live replicas, this one included
	Owners   map[int]string // owners by slot
	Self     string         // this replica's name as owner
	Held     int            // slots that this replica works on
	Share    int            // slots that this replica should hold
	Standby  string         // why this replica intentionally holds no slot, or empty
}

// Run balances the slots until the context ends, a slot can't continue, or the layout has changed (*checkpoint.LayoutError).
// Before it returns, it removes this replica's heartbeat, and drains and releases its slots.
func (r Replica) Run(ctx context.Context) error { return newBalancer(r).run(ctx) }
