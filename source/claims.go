package source

import (
	"sync"

	"kubecdc/change"
)

// Claims are revisions that are known to be changes of some stream's objects. etcd writes one key at a revision (but for
// the expiry of a lease, which only Events use: many Events at one), so no other stream of the same etcd need look there.
//
// Which resources are in one etcd a client can't know: an API server may keep some in another one
// (--etcd-servers-overrides; events often are), and aggregated servers have stores of their own. Their revisions are
// other revisions, in the same range of numbers. What is known is that all objects of one resource are in one place. So
// only streams of one resource share claims, of which KUBECDC_NAMESPACES makes several.
type Claims struct {
	mu    sync.Mutex
	n     int
	now   claims
	older claims
}

// claims are stream ids, by resource and revision.
type claims map[string]map[uint64]string

// claimsKept bounds the memory: so many are remembered at least, twice as many at most.
const claimsKept = 200_000

// add notes a change of the stream's objects. A stream that has all of its resource is not asked about by any other.
func (c *Claims) add(revision uint64, s *change.Stream) {
	if s.Namespace == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.n >= claimsKept {
		c.older, c.now, c.n = c.now, claims{}, 0
	}
	resource := s.Resource.ID()
	if c.now[resource] == nil {
		c.now[resource] = map[uint64]string{}
	}
	c.now[resource][revision] = s.ID()
	c.n++
}

// forget drops all: the server's history went back.
func (c *Claims) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.now, c.older = 0, nil, nil
}

// between calls explained for every revision in (from, to] at which objects of another stream of the same resource
// changed. Such streams have no object in common (each has another namespace), so nothing of this one changed there.
func (c *Claims) between(from, to uint64, s *change.Stream, explained func(revision uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range []claims{c.now, c.older} {
		for revision, owner := range all[s.Resource.ID()] {
			if owner != s.ID() && revision > from && revision <= to {
				explained(revision)
			}
		}
	}
}
