package recovery

import (
	"context"
	"math"
	"slices"
	"sync"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// shared is a resource in all namespaces, for the streams of single namespaces that recover together. A revision writes one key.
// So if the resource has the same size at a revision and before it, nothing was created or deleted there in any namespace. Two
// reads then answer for all streams. If the sizes differ, two lists of names show which stream it concerns.
type shared struct {
	mu         sync.Mutex
	sizes      map[uint64]*sizeRead
	unreadable bool            // a user who may read single namespaces only
	listed     map[uint64]bool // revisions whose writer was looked for
	objects    int64           // about as many as it has
}

// sizeRead is a size that some stream reads.
type sizeRead struct {
	done chan struct{}
	size int64
	err  error
}

// size returns the size at a revision. The first stream that asks reads it.
func (w *shared) size(ctx context.Context, h History, revision uint64) (int64, error) {
	w.mu.Lock()
	r := w.sizes[revision]
	if r == nil {
		r = &sizeRead{done: make(chan struct{})}
		w.sizes[revision] = r
		w.mu.Unlock()
		r.size, r.err = h.Size(ctx, revision)
		w.mu.Lock()
		if r.err != nil {
			delete(w.sizes, revision)
			w.unreadable = w.unreadable || !IsLost(r.err) && ctx.Err() == nil
		} else {
			w.objects = r.size
		}
		close(r.done)
	}
	w.mu.Unlock()
	select {
	case <-r.done:
		return r.size, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// knows reports whether the sizes at a revision and before it are known, or being read.
func (w *shared) knows(revision uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizes[revision] != nil && w.sizes[revision-1] != nil
}

// shares returns the resource in all namespaces, or nil if the stream may not use its sizes.
func (s *search) shares() *shared {
	if s.AllNamespaces == nil || !s.Kind.isBounded() {
		return nil
	}
	return s.Participant.allNamespaces()
}

// growth returns by how much the resource grew in all namespaces at a revision. ok is false if that is not known, and is not
// worth two reads.
func (s *search) growth(ctx context.Context, w *shared, revision uint64) (n int64, ok bool, err error) {
	if revision <= s.oldest.Load() || !w.knows(revision) && !s.saveMoreThan(2*w.sizeCost(s.tuning)) {
		return 0, false, nil
	}
	before, err := w.size(ctx, s.AllNamespaces, revision-1)
	if err == nil {
		n, err = w.size(ctx, s.AllNamespaces, revision)
	}
	s.answer()
	if err != nil {
		return 0, false, ctx.Err() // the stream reads its own sizes
	}
	return n - before, true, nil
}

func (w *shared) sizeCost(t *tuning) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unreadable {
		return math.Inf(1)
	}
	return t.costs.size + t.costs.counted*float64(w.objects)
}

// saveMoreThan reports whether a size less for each stream that waits and shares the resource is worth so much.
func (s *search) saveMoreThan(cost float64) bool {
	return float64(s.Participant.sharers())*s.meter.now().size > cost
}

// dateByGrowth dates the deletions that are left, before sizes are read, among the revisions at which the resource shrank in all
// namespaces. All streams date their deletions before any of them reads its sizes, since each dated deletion saves a read of
// every other stream.
func (s *search) dateByGrowth(ctx context.Context) error {
	w := s.shares()
	if w == nil || len(s.ended) == 0 || !s.saveMoreThan(0) {
		return nil
	}
	var mu sync.Mutex
	grew := map[uint64]int64{}
	err := s.eachUnexplained(ctx, dating, func(ctx context.Context, r uint64) error {
		n, ok, err := s.growth(ctx, w, r)
		if ok {
			mu.Lock()
			grew[r] = n
			mu.Unlock()
		}
		return err
	})
	if err != nil || len(grew) == 0 {
		return err
	}
	shrank := func(lo, hi uint64) []uint64 {
		return slices.DeleteFunc(s.explained.upTo(lo, hi), func(r uint64) bool { n, ok := grew[r]; return ok && n >= 0 })
	}
	ended := s.ended
	s.ended = nil
	return s.each(ctx, ended, func(ctx context.Context, l *incarnation) error {
		if l.lastSeen < s.oldest.Load() || s.bound(l) {
			s.recordEnd(l, l.lastSeen, l.firstMissing)
			return nil
		}
		if err := s.dateAmong(ctx, l, shrank); err != nil || l.deleted == 0 {
			return err
		}
		return s.walkDated(ctx, l)
	})
}

// readShared reads the stream's size at a revision. It need not do so if the size of all namespaces shows that the stream's size
// has not changed.
func (s *search) readShared(ctx context.Context, c *sizes, r uint64) error {
	if w := s.shares(); w != nil {
		n, ok, err := s.growth(ctx, w, r)
		if ok && n != 0 {
			err = s.findWriter(ctx, w, r)
		}
		if err != nil {
			return err
		}
		if ok && (n == 0 || s.explained.lowest(r) != r) {
			s.read.add(r)
			return nil
		}
	}
	return s.readSize(ctx, c, r)
}

// findWriter finds out in which namespaces a revision created or deleted an object, and tells all streams, if that is worth the
// lists. A stream that takes the revision for another's, although it deleted objects of both, finds its object missing before the
// next fall of its sizes (errSeveralKeys).
func (s *search) findWriter(ctx context.Context, w *shared, r uint64) error {
	w.mu.Lock()
	known, objects := w.listed[r], w.objects
	w.mu.Unlock()
	if costs := s.meter.now(); known || !s.saveMoreThan(2*costs.listCost(objects, false)) {
		return nil
	}
	changed, err := map[string]bool{}, error(nil)
	for _, revision := range []uint64{r - 1, r} {
		if err == nil {
			err = s.AllNamespaces.Names(ctx, "", revision, func(o apiclient.Object) error {
				if changed[o.Key()] = !changed[o.Key()]; !changed[o.Key()] {
					delete(changed, o.Key())
				}
				return nil
			})
		}
	}
	s.answer()
	w.mu.Lock()
	w.listed[r] = true
	w.mu.Unlock()
	for key := range changed {
		if namespace, _ := change.SplitKey(key); err == nil {
			s.Participant.sibling(namespace).wrote(r)
		}
	}
	return ctx.Err()
}
