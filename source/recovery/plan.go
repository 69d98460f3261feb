package recovery

import (
	"cmp"
	"slices"

	"kubecdc/change"
)

// Plan holds the recovered changes, in the order in which they are to be emitted.
type Plan []Change

type Change struct {
	Key, UID string
	Op       change.Op
	Version  uint64 // 0: a deletion whose revision is not known
	Body     []byte // nil: a deletion, or a state that must be read again
	Until    uint64 // the last revision at which the object is known to have this state: the server has it for the longest time
	Inferred bool   // only the states before and after are known, not the change itself

	after uint64 // for a deletion whose revision is not known: the last revision at which its object is known to have changed
}

// plan puts the changes of all incarnations in the order of their revisions. A deletion whose revision is not known follows the
// last change of its object whose revision is known. If no such change exists, the deletion comes first, since it happened before
// anything that can still be read.
func (s *search) plan() Plan {
	var p Plan
	for _, all := range s.incarnations {
		for _, l := range all {
			p = s.planOf(l, p)
		}
	}
	slices.SortStableFunc(p, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.order(), y.order()), cmp.Compare(x.Key, y.Key))
	})
	return p
}

func (c *Change) order() uint64 { return max(c.Version, c.after) }

func (s *search) planOf(l *incarnation, p Plan) Plan {
	if !l.logged && len(l.revisions) == 0 {
		return p // nothing of it can be read any more
	}
	slices.SortFunc(l.revisions, func(x, y revision) int { return cmp.Compare(y.version, x.version) })
	last := uint64(0)
	for i := len(l.revisions) - 1; i >= 0; i-- {
		r, until := l.revisions[i], s.lastOf(l)
		if i > 0 {
			until = l.revisions[i-1].version - 1
		}
		c := Change{Key: l.key, UID: l.uid, Op: change.Update, Version: r.version, Body: r.body, Until: max(until, r.version)}
		switch oldest := i == len(l.revisions)-1; {
		case oldest && !l.logged:
			c.Op = change.Create
			c.Inferred = l.created == 0 // only the oldest state that can be read is known, not the creation itself
		case oldest:
			c.Inferred = l.truncated && s.Kind.Selected // it may have left the selection before, and come back
		}
		p, last = append(p, c), r.version
	}
	switch {
	case l.doubtful:
		p = append(p, Change{Key: l.key, UID: l.uid, Op: change.Delete, Inferred: true, after: l.deleted})
	case l.deleted != 0:
		p = append(p, Change{Key: l.key, UID: l.uid, Op: change.Delete, Version: l.deleted})
	case l.undated:
		p = append(p, Change{Key: l.key, UID: l.uid, Op: change.Delete, Inferred: true, after: last})
	}
	return p
}

// lastOf returns the last revision at which the object is known to exist.
func (s *search) lastOf(l *incarnation) uint64 {
	switch {
	case l.deleted != 0:
		return l.deleted - 1
	case l.undated || l.doubtful:
		return l.lastSeen
	}
	return s.To
}

// Count adds the numbers of the plan's changes to g.
func (p Plan) Count(g *change.Gap) {
	for _, c := range p {
		switch c.Op {
		case change.Create:
			g.Created++
		case change.Update:
			g.Updated++
		case change.Delete:
			g.Deleted++
		}
		if c.Inferred {
			g.Inferred++
		} else {
			g.Recovered++
		}
	}
}
