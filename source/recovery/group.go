package recovery

import (
	"time"

	"kubecdc/change"
)

// group is the recoveries whose changes explain revisions for each other: all of one etcd, or all of one resource.
type group struct {
	line            []*Participant // that run, the first one first (turns.go)
	writes, lasting revisions      // what its resources wrote, in this round. lasting leaves out resources whose objects expire
	until           uint64         // the newest end of its gaps, in this round
	listed          time.Time      // when that was listed
	quietEnded      int            // quiet recoveries that have ended in this round
}

func newGroup() *group {
	return &group{writes: revisions{limit: writePages}, lasting: revisions{limit: writePages}}
}

func (g *group) forget() {
	g.writes.clear()
	g.lasting.clear()
	g.until = 0
}

func (g *group) add(r *resource) {
	g.writes.merge(&r.writes)
	if !r.leased {
		g.lasting.merge(&r.writes)
	}
}

// resource is a resource whose streams take part. The coordinator's lock guards it.
type resource struct {
	id       string
	leased   bool // several objects expire at one revision
	exported bool // by a stream of the process
	spaces   map[string][]*Participant

	local     bool      // kube-apiserver itself keeps the resource, as far as is known
	otherEtcd bool      // in another etcd than Events, as was found in this round
	alone     group     // has only its streams
	group     *group    // alone, or the coordinator's
	running   int       // recoveries of single namespaces
	writes    revisions // what its streams wrote, in this round
	spaced    revisions // what its streams of single namespaces wrote
}

func (c *Coordinator) resourceOf(s *change.Stream, leased bool) *resource {
	id := s.Resource.ID()
	r := c.resources[id]
	if r == nil {
		r = &resource{id: id, leased: leased, spaces: map[string][]*Participant{}, writes: revisions{limit: writePages},
			spaced: revisions{limit: writePages}}
		r.group = &r.alone
		c.resources[id] = r
	}
	return r
}

// beginRound collects the writes that its streams know. No recovery runs.
func (r *resource) beginRound() {
	r.group, r.otherEtcd = &r.alone, false
	r.alone.until, r.alone.quietEnded = 0, 0
	for namespace, all := range r.spaces {
		for _, p := range all {
			r.writes.merge(&p.writes)
			if namespace != "" {
				r.spaced.merge(&p.writes)
			}
		}
	}
}

func (r *resource) forget() {
	r.writes.clear()
	r.spaced.clear()
	r.alone.until = 0
}

// tell tells the other streams of the group that a stream of the resource wrote at the revision.
func (r *resource) tell(p *Participant, revision uint64) {
	r.writes.add(revision)
	if p.stream.Namespace != "" {
		r.spaced.add(revision)
	}
	if r.group == &r.alone {
		return
	}
	r.group.writes.add(revision)
	if !r.leased {
		r.group.lasting.add(revision)
	}
}

// place puts the resource into the group in which its changes explain revisions.
func (c *Coordinator) place(r *resource) {
	before, g := r.group, &r.alone
	if r.local && c.overrides != nil && (*c.overrides == 0 || *c.overrides == 1 && r.otherEtcd) {
		g = c.etcd
	}
	if g == before {
		return
	}
	for _, all := range r.spaces {
		for _, p := range all {
			before.leave(p)
			g.enter(p)
		}
	}
	if r.group = g; g == c.etcd {
		g.add(r)
	} else {
		c.etcd.forget()
		for _, q := range c.resources {
			if q.group == c.etcd {
				c.etcd.add(q)
			}
		}
	}
	before.wake()
	g.wake()
}

// learnsFrom reports whether a change of the other stream explains a revision for this one. Both must be in one etcd and have no
// object in common, and the revision must not have written an object of this stream too.
func (p *Participant) learnsFrom(q *Participant) bool {
	return p.inOneEtcd(q) && !(p.resource.leased && q.resource.leased)
}

func (p *Participant) inOneEtcd(q *Participant) bool {
	if p.resource == q.resource {
		return p.stream.Namespace != "" && q.stream.Namespace != "" && p.stream.Namespace != q.stream.Namespace
	}
	return p.resource.group == q.resource.group
}

// overlapping returns the streams that may have an object in common with this one, including this one.
func (p *Participant) overlapping() (all []*Participant) {
	if p.stream.Namespace != "" {
		return append(append(all, p.resource.spaces[""]...), p.resource.spaces[p.stream.Namespace]...)
	}
	for _, some := range p.resource.spaces {
		all = append(all, some...)
	}
	return all
}

// addPartners adds the revisions of the page that changes of other streams explain, as learnsFrom says. A revision writes one
// key, so what the stream's own resource wrote explains nothing about the other ones.
func (p *Participant) addPartners(into *page, n uint64) {
	p.locked(func(*Coordinator) {
		r, others := p.resource, page{}
		if r.group != &r.alone && r.leased {
			r.group.lasting.addTo(&others, n)
		} else if r.group != &r.alone {
			r.group.writes.addTo(&others, n)
		}
		r.writes.removeFrom(&others, n)
		into.add(&others)
		if p.stream.Namespace == "" || r.leased {
			return
		}
		others = page{}
		r.spaced.addTo(&others, n)
		for _, q := range r.spaces[p.stream.Namespace] {
			q.writes.removeFrom(&others, n)
		}
		into.add(&others)
	})
}
