package plan

import (
	"log/slog"
	"sync"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
	"kubecdc/source/discovery"
)

// Parts are what the exporter works with.
type Parts struct {
	Server *discovery.Server
	Store  checkpoint.Store // bound to the cluster
	Sink   sinks.Sink
	Spools *spool.Folder  // if nil, nothing is read while the sink is unreachable
	State  *live.Exporter // is told what happens
	Logger *slog.Logger

	Start           *dependency.Steps // may be nil
	StoreAt, SinkAt string            // addresses, for messages

	Log string // the identity of the sink's log, which the start sets
}

// Watched are the parts with what watches their servers, and the bell of the process.
type Watched struct {
	Parts
	Watchdog            *dependency.Watchdog
	SinkReach, APIReach *ownership.Reachability
	Bell                *Bell
}

// Watch adds to the parts what watches their servers.
func Watch(lease time.Duration, p Parts) *Watched {
	w := dependency.NewWatchdog(p.State, p.Logger)
	return &Watched{p, w, ownership.NewReachability(lease, dependency.Sink, w),
		ownership.NewReachability(lease, dependency.APIServer, w), newBell()}
}

// Bell tells the slots of a process that the sink leaves a batch unacknowledged.
type Bell struct {
	mu   sync.Mutex
	next chan struct{} // is closed when it rings
}

func newBell() *Bell { return &Bell{next: make(chan struct{})} }

// Ring closes the channel of all that listen.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// Rings returns a channel that is closed when the bell rings next.
func (b *Bell) Rings() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
