package ownership

import (
	"context"
	"sync"
	"time"

	"kubecdc/internal/dependency"
	"kubecdc/internal/wait"
)

// Reachability tracks whether a server (the sink, or the API server) answers this process. It probes the server while it gets no
// other data from it, so that an idle exporter notices, too. It also tracks the slots' own calls to the sink.
type Reachability struct {
	lease    time.Duration
	server   string // its dependency
	watchdog *dependency.Watchdog

	mu        sync.Mutex
	heard     func() time.Time  // when data last came from the server; may be nil
	probed    time.Time         // last answered probe; zero before the first
	written   time.Time         // last answered call of a slot
	waiting   map[int]time.Time // since when each slot waits for the server, over all its sessions
	evaluated time.Time         // last call of unreachable
}

// NewReachability returns a tracker that reports a server as unreachable if it has not answered for a lease.
func NewReachability(lease time.Duration, server string, w *dependency.Watchdog) *Reachability {
	return &Reachability{lease: lease, server: server, watchdog: w, waiting: map[int]time.Time{}}
}

// name returns the server's name in sentences.
func (r *Reachability) name() string {
	if r.server == dependency.APIServer {
		return "the API server"
	}
	return "the " + r.server
}

// Prober is a server that answers a request which changes nothing.
type Prober interface {
	Probe(ctx context.Context) error
}

// Talker is a server that sends data by itself. It need not be probed while it does.
type Talker interface {
	Heard() time.Time
}

// probeInterval is how often a server is probed, unless leases are short.
const probeInterval = 5 * time.Second

func (r *Reachability) interval() time.Duration { return min(r.lease/2, probeInterval) }

func (r *Reachability) Probe(ctx context.Context, server Prober) {
	r.mu.Lock()
	if talker, ok := server.(Talker); ok {
		r.heard = talker.Heard
	}
	r.probed = time.Now()
	r.mu.Unlock()
	interval := r.interval()
	for ctx.Err() == nil {
		r.mu.Lock()
		silent := time.Since(r.lastAnswer())
		r.mu.Unlock()
		if silent < interval {
			_ = wait.For(ctx, interval-silent)
			continue
		}
		call := r.watchdog.Begin(r.server, "the probe of "+r.name())
		for !r.probeOnce(ctx, server, call) && wait.For(ctx, r.lease/10) == nil {
		}
		call.End()
	}
}

// lastAnswer returns when a probe was answered, or when data last came from the server. The caller holds the lock.
func (r *Reachability) lastAnswer() time.Time {
	if r.heard != nil {
		if heard := r.heard(); heard.After(r.probed) {
			r.probed = heard
		}
	}
	return r.probed
}

func (r *Reachability) probeOnce(ctx context.Context, server Prober, call *dependency.Call) bool {
	ctx, cancel := context.WithTimeout(ctx, max(r.lease, dependency.StalledAfter))
	defer cancel()
	if err := server.Probe(ctx); err != nil {
		call.Failed(err)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = time.Now()
	return true
}

// Call runs a slot's call to the sink. The slot counts as waiting from its first failed call until one succeeds.
func (r *Reachability) Call(slot int, do func() error) error {
	r.mu.Lock()
	if r.waiting[slot].IsZero() {
		r.waiting[slot] = time.Now()
	}
	r.mu.Unlock()
	err := do()
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, slot)
		r.written = time.Now()
	}
	return err
}

func (r *Reachability) Forget(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, slot)
}

// answers reports whether a probe was answered as lately as the last one can be. Before the first one it returns true.
func (r *Reachability) answers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastAnswer().IsZero() || time.Since(r.probed) < r.interval()+dependency.StalledAfter
}

// unreachable reports whether the server has been unreachable for a lease, and when it last answered. No probe was answered for a
// lease, and a slot has waited for as long, or no slot's call was answered for as long. While slots can write, a failed probe
// does not matter.
func (r *Reachability) unreachable() (since time.Time, unreachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.evaluated
	if r.evaluated = time.Now(); r.evaluated.Sub(before) >= r.lease && !r.probed.IsZero() {
		r.probed = r.evaluated // the process was suspended, and could not probe
	}
	if r.lastAnswer(); r.probed.IsZero() || time.Since(r.probed) < r.lease {
		return r.probed, false
	}
	for _, since := range r.waiting {
		if time.Since(since) >= r.lease {
			return r.probed, true
		}
	}
	return r.probed, time.Since(r.written) >= r.lease
}
