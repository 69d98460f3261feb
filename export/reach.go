package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kubecdc/sinks"
)

// reach knows whether the sink answers this process. It probes the sink now and then, so that an idle exporter knows it too,
// and is told of the slots' own calls.
type reach struct {
	lease  time.Duration
	stalls *stalls

	mu      sync.Mutex
	probed  time.Time         // when a probe was last answered; zero: none was sent yet
	written time.Time         // when a slot's call was last answered
	waiting map[int]time.Time // slots that wait for the sink, since when, over all sessions
	asked   time.Time         // when lost was last called
}

func newReach(lease time.Duration, s *stalls) *reach {
	return &reach{lease: lease, stalls: s, waiting: map[int]time.Time{}}
}

// probe asks the sink until the context ends.
func (r *reach) probe(ctx context.Context, sink sinks.Sink) {
	r.answered()
	for ctx.Err() == nil {
		wait := r.stalls.begin(PartSink, "the probe of the sink")
		for !r.ask(ctx, sink, wait) && ctx.Err() == nil {
			pause(ctx, r.lease/10)
		}
		wait.end()
		pause(ctx, min(r.lease/2, probeEvery))
	}
}

// probeEvery is how often the sink is asked for an answer, unless leases are short.
const probeEvery = 5 * time.Second

func (r *reach) ask(ctx context.Context, sink sinks.Sink, wait *stall) bool {
	try, cancel := context.WithTimeout(ctx, max(r.lease, stalledAfter))
	defer cancel()
	if err := sink.Probe(try); err != nil {
		wait.failed(err)
		return false
	}
	r.answered()
	return true
}

func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = time.Now()
}

// call is a slot's call to the sink: the slot waits from its first attempt until one is done.
func (r *reach) call(slot int, do func() (done bool)) {
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

// left says that the slot is not worked on here any more.
func (r *reach) left(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, slot)
}

// lost reports whether the sink has been out of this process's reach for a lease: no probe was answered, and either a slot
// has waited for as long, or no slot had an answer. Where slots write all the same, what the probe misses is not needed.
func (r *reach) lost() (since time.Time, lost bool) {
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

// cutOffError ends the work on a slot that is given back since the sink does not answer here.
type cutOffError struct{ since time.Time }

func (e *cutOffError) Error() string {
	return fmt.Sprintf("the slot is given back: the sink has not answered this replica since %s, and another replica lives", e.since.UTC().Format(time.RFC3339))
}

// cutOff is why the context was ended, if that is why.
func cutOff(ctx context.Context) error {
	var cut *cutOffError
	if errors.As(context.Cause(ctx), &cut) {
		return cut
	}
	return nil
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
