package recovery

import (
	"sync"

	"kubecdc/change"
)

// SharedRevisions holds revisions at which the recovery of some stream found a change. A revision of etcd writes one key (but
// for the expiry of a lease, which only Events have), so no other stream of the same etcd changed at such a revision.
//
// A client can't know which resources are in one etcd: an API server may keep some in another one
// (--etcd-servers-overrides; events often are), and aggregated servers have stores of their own, with other revisions in
// the same range of numbers. It does know that all objects of one resource are in one place. So only streams of one
// resource share revisions; KUBECDC_NAMESPACES makes several of these.
type SharedRevisions struct {
	mu    sync.Mutex
	n     int
	now   byResource
	older byResource
}

// byResource maps a resource's id and a revision to the stream that changed.
type byResource map[string]map[uint64]change.StreamID

// sharedKept bounds the memory: at least so many revisions are remembered, and at most twice as many.
const sharedKept = 200_000

// Forget drops all revisions. It must be called when the server's history went back, since revisions are then given out again.
func (c *SharedRevisions) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.now, c.older = 0, nil, nil
}

// Of returns the revisions as one stream shares them.
func (c *SharedRevisions) Of(s *change.Stream) *Shared { return &Shared{c, s} }

// Shared is what one stream tells the others of its resource about revisions, and learns from them. A nil *Shared knows
// nothing.
type Shared struct {
	all    *SharedRevisions
	stream *change.Stream
}

// add records a change of the stream's objects. It ignores a stream of all namespaces: that has no other to share with.
func (x *Shared) add(revision uint64) {
	if x == nil || x.stream.Namespace == "" {
		return
	}
	c := x.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.n >= sharedKept {
		c.older, c.now, c.n = c.now, byResource{}, 0
	}
	resource := x.stream.Resource.ID()
	if c.now[resource] == nil {
		c.now[resource] = map[uint64]change.StreamID{}
	}
	c.now[resource][revision] = x.stream.ID()
	c.n++
}

// between calls explained for every revision in (from, to] at which another stream of the same resource changed. Such
// streams have no object in common, since each has another namespace, so this stream did not change there.
func (x *Shared) between(from, to uint64, explained func(revision uint64)) {
	if x == nil {
		return
	}
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	for _, revisions := range []byResource{x.all.now, x.all.older} {
		for revision, owner := range revisions[x.stream.Resource.ID()] {
			if owner != x.stream.ID() && revision > from && revision <= to {
				explained(revision)
			}
		}
	}
}
