package export

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A replica that the sink does not answer stands aside: it does not count as a replica, takes no slot that another one would
// take, and keeps its own ones. Where the sink answers another replica, which is told from its heartbeats, for leasesAside
// leases, it gives its slots back. Where nobody has an answer, nobody counts as a replica, and no slot moves.
type aside struct {
	lost   bool          // the sink does not answer
	since  time.Time     // when it last answered
	others time.Time     // since when another replica has counted meanwhile; zero: none does
	gave   time.Time     // when slots were last given back
	absent time.Duration // how long the sink must answer, after that, before this replica counts again
	until  time.Time     // when that will be
}

const (
	leasesAside = 2
	// A replica whose network comes and goes is absent for longer each time that it gives its slots back, up to a minute,
	// until it has not done so for a while.
	longestAbsence = time.Minute
	calm           = 10 * time.Minute
)

// look reports whether this replica stands aside, before a heartbeat.
func (a *aside) look(r *reach) bool {
	a.since, a.lost = r.lost()
	if a.lost {
		a.until = time.Now().Add(a.absent)
		return true
	}
	return !a.others.IsZero() && time.Now().Before(a.until)
}

// met notes after a heartbeat whether other replicas count, and reports whether the slots are to be given back.
func (a *aside) met(others bool, lease time.Duration) (give bool) {
	switch {
	case !others:
		a.others = time.Time{}
	case a.others.IsZero():
		a.others = time.Now()
	}
	return a.lost && others && time.Since(a.others) >= leasesAside*lease
}

func (a *aside) givesBack(lease time.Duration) {
	if time.Since(a.gave) > calm {
		a.absent = 0
	}
	a.absent = max(lease, min(2*a.absent, longestAbsence))
	a.gave = time.Now()
}

// standAside is a round of a replica that stands aside. What is free it takes only where nobody else would.
func (b *balancer) standAside(slots context.Context, v view) {
	v.members = slices.DeleteFunc(slices.Clone(v.members), func(m string) bool { return m == v.self })
	others := len(v.members) > 0
	if b.aside.others.IsZero() && others && b.aside.lost {
		b.log.Warn("the sink does not answer this replica, and another one lives: its slots are given back if that lasts",
			"since", b.aside.since.UTC().Format(time.RFC3339), "in", (leasesAside * b.config.LeaseDuration).String())
	}
	if b.aside.met(others, b.config.LeaseDuration) {
		b.giveBack()
	}
	if !others {
		v.members = []string{v.self}
		for _, slot := range v.take() {
			b.start(slots, slot)
		}
	}
	b.tell(v)
}

// giveBack ends the work on all slots, without waiting for what is in flight.
func (b *balancer) giveBack() {
	given := false
	for _, w := range b.working {
		if !w.moving {
			w.moving, given = true, true
			w.stop(&cutOffError{b.aside.since})
		}
	}
	if given {
		b.aside.givesBack(b.config.LeaseDuration)
		b.log.Warn("the slots are given back to the other replicas: the sink does not answer this one", "since", b.aside.since.UTC().Format(time.RFC3339))
	}
}

// why says why no slot is held here.
func (a *aside) why() string {
	if a.lost {
		return fmt.Sprintf("the sink has not answered this replica since %s: the slots are left to the others", a.since.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the sink answers this replica again: it takes its share of the slots at %s", a.until.UTC().Format(time.RFC3339))
}
