package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubecdc/internal/dependency"
)

// isolation is the state of a replica that gets no answer from a server that it needs: the sink, or the API server. An isolated
// replica does not count as a replica, keeps its slots, and claims only slots that no other replica would claim. If another
// replica has counted for isolatedLeases leases, both servers answer that replica. Then the isolated replica steps down: it
// releases its slots. If a server answers no replica, none counts, and no slot moves.
type isolation struct {
	isolated    bool          // a server does not answer
	from        *Reachability // that server; remains set after it has answered
	since       time.Time     // when it last answered
	othersSince time.Time     // since when another replica has counted during the isolation, or zero
	steppedDown time.Time     // last time
	probation   time.Duration // how long the servers must answer after that before this replica counts again
	rejoins     time.Time     // end of the probation
}

const (
	isolatedLeases = 2
	// The probation doubles each time that the replica steps down, up to maxProbation, so that an unstable network does not
	// move slots again and again. After stableAfter without stepping down it starts from a lease again.
	maxProbation = time.Minute
	stableAfter  = 10 * time.Minute
)

// update reports, before a heartbeat, whether this replica is excluded: it is isolated, or on probation.
func (i *isolation) update(servers ...*Reachability) (excluded bool) {
	i.isolated = false
	for _, server := range servers { // call each, since they notice when the process was suspended
		if since, unreachable := server.unreachable(); unreachable && !i.isolated {
			i.isolated, i.from, i.since = true, server, since
		}
	}
	if i.isolated {
		i.rejoins = time.Now().Add(i.probation)
		return true
	}
	return !i.othersSince.IsZero() && time.Now().Before(i.rejoins)
}

// checkOthers records after a heartbeat whether other replicas count, and reports whether this one must step down.
func (i *isolation) checkOthers(others bool, lease time.Duration) (mustStepDown bool) {
	switch {
	case !others:
		i.othersSince = time.Time{}
	case i.othersSince.IsZero():
		i.othersSince = time.Now()
	}
	return i.isolated && others && time.Since(i.othersSince) >= isolatedLeases*lease
}

func (i *isolation) beginProbation(lease time.Duration) {
	if time.Since(i.steppedDown) > stableAfter {
		i.probation = 0
	}
	i.probation = max(lease, min(2*i.probation, maxProbation))
	i.steppedDown = time.Now()
}

// excludedRound is the round of an excluded replica. It claims free slots only if there is no other replica.
func (b *balancer) excludedRound(slots context.Context, v view) {
	v.members = slices.DeleteFunc(slices.Clone(v.members), func(m string) bool { return m == v.self })
	others := len(v.members) > 0
	if b.isolation.othersSince.IsZero() && others && b.isolation.isolated {
		b.Logger.Warn(b.isolation.from.name()+" does not answer this replica, and another replica is live: this one will step "+
			"down unless it does",
			"since", timestamp(b.isolation.since), "in", (isolatedLeases * b.Lease).String())
	}
	if b.isolation.checkOthers(others, b.Lease) {
		b.stepDown()
	}
	if !others {
		v.members = []string{v.self}
		b.claim(slots, v)
	}
	b.report(v)
}

// stepDown stops the work on all slots. It does not wait for a sink that does not answer, and gives up batches in flight.
func (b *balancer) stepDown() {
	stopped, from, since := false, b.isolation.from, timestamp(b.isolation.since)
	var cause error // nil: what was read is still written
	if from.server == dependency.Sink {
		cause = fmt.Errorf("%w: the sink has not answered it since %s, and another one is live", errSteppedDown, since)
	}
	for _, w := range b.workers {
		if !w.handingOver {
			w.handingOver, stopped = true, true
			w.stop(cause)
		}
	}
	if stopped {
		b.isolation.beginProbation(b.Lease)
		b.Logger.Warn("stepping down: the slots are released to the other replicas, since "+from.name()+
			" does not answer this one", "since", since)
	}
}

// errSteppedDown ends the work on the slots of a replica that steps down because the sink does not answer it.
var errSteppedDown = errors.New("the replica stepped down")

// SteppedDown returns the error with which this replica stepped down from a slot that it can't drain. It returns nil if the
// context has not ended, or has ended for another reason.
func SteppedDown(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSteppedDown) {
		return cause
	}
	return nil
}

func (i *isolation) standby() string {
	if i.isolated {
		return fmt.Sprintf("%s has not answered this replica since %s: its slots are left to the others", i.from.name(),
			timestamp(i.since))
	}
	return fmt.Sprintf("%s answers this replica again: it claims its share of the slots at %s", i.from.name(),
		timestamp(i.rejoins))
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
