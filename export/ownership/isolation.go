package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A replica that the sink does not answer is isolated: it does not count as a replica, claims no slot that another one would
// claim, and keeps its own ones. Where the sink answers another replica, which is told from its heartbeats, for
// leasesIsolated leases, it steps down: it gives its slots up. Where nobody has an answer, nobody counts as a replica, and no
// slot moves.
type isolation struct {
	isolated    bool          // the sink does not answer
	since       time.Time     // when it last answered
	others      time.Time     // since when another replica has counted meanwhile; zero: none does
	steppedDown time.Time     // the last time
	probation   time.Duration // how long the sink must answer, after that, before this replica counts again
	rejoins     time.Time     // when that will be
}

const (
	leasesIsolated = 2
	// A replica whose network comes and goes has a longer probation each time that it steps down, up to a minute, until it
	// has not done so for a while.
	longestProbation = time.Minute
	stable           = 10 * time.Minute
)

// excluded reports, before a heartbeat, whether this replica is not to count: it is isolated, or on probation.
func (i *isolation) excluded(sink *Reachability) bool {
	i.since, i.isolated = sink.unreachable()
	if i.isolated {
		i.rejoins = time.Now().Add(i.probation)
		return true
	}
	return !i.others.IsZero() && time.Now().Before(i.rejoins)
}

// heard notes after a heartbeat whether other replicas count, and reports whether this one is to step down.
func (i *isolation) heard(others bool, lease time.Duration) (stepDown bool) {
	switch {
	case !others:
		i.others = time.Time{}
	case i.others.IsZero():
		i.others = time.Now()
	}
	return i.isolated && others && time.Since(i.others) >= leasesIsolated*lease
}

// stepDown begins a probation.
func (i *isolation) stepDown(lease time.Duration) {
	if time.Since(i.steppedDown) > stable {
		i.probation = 0
	}
	i.probation = max(lease, min(2*i.probation, longestProbation))
	i.steppedDown = time.Now()
}

// excludedRound is a round of a replica that does not count. What is free it claims only where nobody else would.
func (b *balancer) excludedRound(slots context.Context, v view) {
	v.members = slices.DeleteFunc(slices.Clone(v.members), func(m string) bool { return m == v.self })
	others := len(v.members) > 0
	if b.isolation.others.IsZero() && others && b.isolation.isolated {
		b.Logger.Warn("the sink does not answer this replica, and another one lives: its slots are given back if that lasts",
			"since", b.isolation.since.UTC().Format(time.RFC3339), "in", (leasesIsolated * b.Lease).String())
	}
	if b.isolation.heard(others, b.Lease) {
		b.stepDown()
	}
	if !others {
		v.members = []string{v.self}
		for _, slot := range v.claims() {
			b.start(slots, slot)
		}
	}
	b.report(v)
}

// stepDown ends the work on all slots, without waiting for what is in flight.
func (b *balancer) stepDown() {
	given := false
	for _, w := range b.working {
		if !w.leaving {
			w.leaving, given = true, true
			w.stop(&steppedDownError{b.isolation.since})
		}
	}
	if given {
		b.isolation.stepDown(b.Lease)
		b.Logger.Warn("the slots are given back to the other replicas: the sink does not answer this one", "since", b.isolation.since.UTC().Format(time.RFC3339))
	}
}

// why says why no slot is held here.
func (i *isolation) why() string {
	if i.isolated {
		return fmt.Sprintf("the sink has not answered this replica since %s: the slots are left to the others", i.since.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the sink answers this replica again: it takes its share of the slots at %s", i.rejoins.UTC().Format(time.RFC3339))
}

// steppedDownError ends the work on the slots of a replica that steps down.
type steppedDownError struct{ since time.Time }

func (e *steppedDownError) Error() string {
	return fmt.Sprintf("the slot is given back: the sink has not answered this replica since %s, and another replica lives", e.since.UTC().Format(time.RFC3339))
}

// SteppedDown gives the error with which this replica ended the work on a slot, since the sink does not answer it; nil where
// the context was ended for another reason, or was not.
func SteppedDown(ctx context.Context) error {
	var down *steppedDownError
	if errors.As(context.Cause(ctx), &down) {
		return down
	}
	return nil
}
