package ownership

import (
	"context"
	"sync"
	"time"

	"kubecdc/export/dependency"
)

// Reachability knows whether the sink answers this process. It probes the sink now and then, so that an idle exporter knows it
// too, and is told of the slots' own calls.
type Reachability struct {
	lease    time.Duration
	watchdog *dependency.Watchdog

	mu      sync.Mutex
	probed  time.Time         // when a probe was last answered; zero: none was sent yet
	written time.Time         // when a slot's call was last answered
	waiting map[int]time.Time // slots that wait for the sink, since when, over all sessions
	asked   time.Time         // when unreachable was last called
}

// NewReachability takes a sink for out of reach that has not answered for a lease.
func NewReachability(lease time.Duration, w *dependency.Watchdog) *Reachability {
	return &Reachability{lease: lease, watchdog: w, waiting: map[int]time.Time{}}
}

// Prober is a sink that can be asked for an answer, without a record.
type Prober interface {
	Probe(ctx context.Context) error
}

// Probe asks the sink until the context ends.
func (r *Reachability) Probe(ctx context.Context, sink Prober) {
	r.answered()
	for ctx.Err() == nil {
		wait := r.watchdog.Begin(dependency.Sink, "the probe of the sink")
		for !r.ask(ctx, sink, wait) && ctx.Err() == nil {
			pause(ctx, r.lease/10)
		}
		wait.End()
		pause(ctx, min(r.lease/2, probeEvery))
	}
}

// probeEvery is how often the sink is asked for an answer, unless leases are short.
const probeEvery = 5 * time.Second

func (r *Reachability) ask(ctx context.Context, sink Prober, wait *dependency.Call) bool {
	try, cancel := context.WithTimeout(ctx, max(r.lease, dependency.StalledAfter))
	defer cancel()
	if err := sink.Probe(try); err != nil {
		wait.Failed(err)
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

// Call is a slot's call to the sink: the slot waits from its first attempt until one is done.
func (r *Reachability) Call(slot int, do func() (done bool)) {
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

// Forget says that the slot is not worked on here any more.
func (r *Reachability) Forget(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, slot)
}

// unreachable reports whether the sink has been out of this process's reach for a lease: no probe was answered, and either a slot
// has waited for as long, or no slot had an answer. Where slots write all the same, what the probe misses is not needed.
func (r *Reachability) unreachable() (since time.Time, unreachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.asked
	if r.asked = time.Now(); r.asked.Sub(before) >= r.lease && !r.probed.IsZero() {
		r.probed = r.asked // this process was suspended: that no probe was answered says nothing
	}
	if r.probed.IsZero() || time.Since(r.probed) < r.lease {
		return r.probed, false
	}
	for _, waits := range r.waiting {
		if time.Since(waits) >= r.lease {
			return r.probed, true
		}
	}
	return r.probed, time.Since(r.written) >= r.lease
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
