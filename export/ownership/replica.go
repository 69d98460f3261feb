// Package ownership decides which replica works on which slots. There is no leader: each replica sees from the heartbeats who
// else lives, follows the same rule as all others, and takes no slot that the store does not give it. A replica that the sink
// does not answer leaves its slots to the others.
//
// It knows nothing of what the work on a slot is, of streams, sinks or positions: it starts the work, ends it, and hears that
// it has ended.
package ownership

import (
	"context"
	"log/slog"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
)

// Replica is this process, among those that share the slots.
type Replica struct {
	Name     string // as an owner
	Slots    int
	Lease    time.Duration
	Leases   Leases
	LeasesIn string // the dependency that has them
	Sink     *Reachability
	Watchdog *dependency.Watchdog
	Observer Observer
	Logger   *slog.Logger

	// Work is called for each slot that this replica is to own. It acquires the slot, and works on it until the context
	// ends (nil: drained), another replica has it (nil), or it can't go on.
	Work func(ctx context.Context, slot int) error
}

// Leases tell which replicas live. Slots are acquired by Work.
type Leases interface {
	Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error)
	Leave(ctx context.Context, owner string) error
}

// Observer is told how this replica stands, and when its slots go on.
type Observer interface {
	// Standing follows every look at the other replicas.
	Standing(s Standing)
	// Problem names what a slot is stuck on; nil when it goes on, or is not worked on here any more.
	Problem(slot int, err error)
}

// Standing says how this replica stands among the others.
type Standing struct {
	Replicas int            // that live, this one included
	Owners   map[int]string // of the slots
	Self     string         // this one's name as an owner
	Held     int            // slots that it works on
	Share    int            // slots that it should hold
	Standby  string         // why it holds none and should hold none; empty otherwise
}

// Run balances until the context ends, a slot can't go on, or the number of slots is changed (*checkpoint.LayoutError). Then
// this replica leaves the others, and what it holds is drained and released.
func (r Replica) Run(ctx context.Context) error { return newBalancer(r).run(ctx) }
