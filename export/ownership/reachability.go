package ownership

import (
	"context"
	"sync"
	"time"

	"kubecdc/export/dependency"
)

// Reachability tracks whether the sink answers this process. It probes the sink, so that an idle exporter notices too, and
// it tracks the slots' own calls.
type Reachability struct {
	lease    time.Duration
	watchdog *dependency.Watchdog

	mu        sync.Mutex
	probed    time.Time         // last answered probe; zero before the first
	written   time.Time         // last answered call of a slot
	waiting   map[int]time.Time // since when each slot waits for the sink, over all its sessions
	evaluated time.Time         // last call of unreachable
}

// NewReachability takes the sink for unreachable once it has not answered for a lease.
func NewReachability(lease time.Duration, w *dependency.Watchdog) *Reachability {
	return &Reachability{lease: lease, watchdog: w, waiting: map[int]time.Time{}}
}

// Prober is a sink that answers a request which writes no record.
type Prober interface {
	Probe(ctx context.Context) error
}

// probeInterval is how often the sink is probed, unless leases are short.
const probeInterval = 5 * time.Second

// Probe probes the sink until the context ends.
func (r *Reachability) Probe(ctx context.Context, sink Prober) {
	r.answered()
	for ctx.Err() == nil {
		call := r.watchdog.Begin(dependency.Sink, "the probe of the sink")
		for !r.probeOnce(ctx, sink, call) && ctx.Err() == nil {
			sleep(ctx, r.lease/10)
		}
		call.End()
		sleep(ctx, min(r.lease/2, probeInterval))
	}
}

func (r *Reachability) probeOnce(ctx context.Context, sink Prober, call *dependency.Call) bool {
	ctx, cancel := context.WithTimeout(ctx, max(r.lease, dependency.StalledAfter))
	defer cancel()
	if err := sink.Probe(ctx); err != nil {
		call.Failed(err)
		return false
	}
	r.answered()
	return true
}

func (r *Reachability) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = time.Now()
}

// Call runs a slot's call to the sink. The slot counts as waiting from its first failed call until one succeeds.
func (r *Reachability) Call(slot int, do func() (ok bool)) {
	r.mu.Lock()
	if r.waiting[slot].IsZero() {
		r.waiting[slot] = time.Now()
	}
	r.mu.Unlock()
	if !do() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, slot)
	r.written = time.Now()
}

// Forget removes a slot that this process no longer works on.
func (r *Reachability) Forget(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, slot)
}

// unreachable reports whether the sink has been unreachable for a lease, and when it last answered a probe. No probe was
// answered for a lease, and either a slot has waited for as long, or no slot's call was answered for as long: while slots
// can write, a failed probe does not matter.
func (r *Reachability) unreachable() (since time.Time, unreachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.evaluated
	if r.evaluated = time.Now(); r.evaluated.Sub(before) >= r.lease && !r.probed.IsZero() {
		r.probed = r.evaluated // the process was suspended, and could not probe
	}
	if r.probed.IsZero() || time.Since(r.probed) < r.lease {
		return r.probed, false
	}
	for _, since := range r.waiting {
		if time.Since(since) >= r.lease {
			return r.probed, true
		}
	}
	return r.probed, time.Since(r.written) >= r.lease
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
