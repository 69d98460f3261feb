package recovery

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// This file finds out which objects were deleted. The deletion of an object that the log has is found by bisecting the open
// deletions, those whose object is not found yet. A transient object is found by listing names at the revision at which most
// unknown objects exist.

// findDeletions finds the end of every incarnation that ends in the gap, and all of its revisions.
func (s *search) findDeletions(ctx context.Context) error {
	for last := int64(-1); ; {
		for len(s.ended) > 0 {
			ended := s.ended
			s.ended = nil
			ended, err := s.findExpiries(ctx, ended)
			if err != nil {
				return err
			}
			if err := s.each(ctx, ended, s.findDeletion); err != nil {
				return err
			}
		}
		if s.sizes == nil {
			return nil
		}
		open := s.sizes.allOpen()
		if open == last { // each round must explain a deletion, or the loop would not end
			s.contradiction(fmt.Sprintf("%d deletions are of objects that no list of the server has", open))
			return nil
		}
		last = open
		found, err := s.findTransient(ctx)
		if err != nil || !found {
			return err
		}
	}
}

type identity struct{ key, uid string }

// transient adds an incarnation that was created and deleted in the gap. The object that the log has under its key is another
// incarnation.
func (s *search) transient(key, uid string) *incarnation {
	l := s.newIncarnation(key, uid)
	for _, other := range s.incarnations[key] {
		if other != l && other.logged && other.uid == uid {
			l.logged, l.version = false, 0
		}
	}
	return l
}

// recordDeletion records the revision at which the incarnation was deleted. It is reported to other streams once it is certain.
// Until the incarnation is walked back, or the sizes are checked, the result is right only if no revision deletes several
// objects.
func (s *search) recordDeletion(l *incarnation, revision uint64) {
	s.mu.Lock()
	l.deleted = revision
	s.mu.Unlock()
	s.explainDeletion(revision)
	s.sizes.deletion(revision)
}

// walkDeleted walks a deleted incarnation back. It first reads the revision before the deletion, even if that revision is
// explained. If the incarnation does not exist there, it was deleted at an earlier revision, together with another object.
func (s *search) walkDeleted(ctx context.Context, l *incarnation) error {
	last := l.deleted - 1
	revision := s.before(l, last)
	if s.Kind.deletesOne() {
		revision = last
	}
	return s.walkBack(ctx, l, revision, last)
}

// walkDated walks back an incarnation that is known to be missing at the revision of its deletion. If it exists just before, that
// revision wrote it.
func (s *search) walkDated(ctx context.Context, l *incarnation) error {
	err := s.walkDeleted(ctx, l)
	if err == nil && !l.truncated {
		s.wrote(l.deleted)
	}
	return err
}

// left takes the only remaining revision for the deletion of an incarnation that is missing at hi. All revisions between them are
// explained. If the incarnation exists at that revision after all, a later one deleted it together with another object.
func (s *search) left(ctx context.Context, l *incarnation, revision, hi uint64) (uint64, error) {
	if !s.Kind.deletesOne() || hi == revision {
		return revision, nil
	}
	exists, err := s.exists(ctx, l, revision)
	if err == nil && exists {
		err = errSeveralKeys
	}
	return revision, err
}

// bound bounds the incarnation's deletion by the other incarnations that are now known under its key. It reports whether one of
// them is the same.
func (s *search) bound(l *incarnation) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.incarnations[l.key] {
		switch {
		case other == l:
		case other.created > l.lastSeen:
			l.firstMissing = min(l.firstMissing, other.created-1)
		case other.uid == l.uid && !l.logged && !other.undated && other.created != 0 && other.deleted > l.lastSeen:
			s.incarnations[l.key] = slices.DeleteFunc(s.incarnations[l.key], func(x *incarnation) bool { return x == l })
			return true
		}
	}
	return false
}

// findDeletion finds the deletion of an incarnation that ended, and walks the incarnation back from there.
func (s *search) findDeletion(ctx context.Context, l *incarnation) error {
	if s.bound(l) {
		return nil
	}
	for {
		lo := l.lastSeen
		if oldest := s.oldest.Load(); lo < oldest {
			exists, err := false, error(nil)
			if oldest < l.firstMissing {
				exists, err = s.exists(ctx, l, oldest)
			}
			if IsLost(err) {
				continue
			}
			if err != nil {
				return err
			}
			if !exists {
				l.undated = true
				return nil
			}
			lo = oldest
		}
		deleted, err := s.deletionBetween(ctx, l, lo, l.firstMissing)
		if IsLost(err) {
			continue // compacted meanwhile
		}
		if err != nil {
			return err
		}
		s.recordDeletion(l, deleted)
		return s.walkDated(ctx, l)
	}
}

// deletionBetween finds the first revision in (lo, hi] at which the object does not exist. It searches the open deletions, or all
// revisions if sizes are not known.
func (s *search) deletionBetween(ctx context.Context, l *incarnation, lo, hi uint64) (uint64, error) {
	if s.sizes != nil {
		if deleted, err := s.deletionAmong(ctx, l, lo, hi, s.sizes.openDeletions); err != nil || deleted != 0 {
			return deleted, err
		}
		s.contradiction(fmt.Sprintf("%s was deleted between revisions %d and %d, and the collection's sizes do not show where",
			l.key, lo, hi))
	} else if s.Kind.isBounded() {
		if deleted, err := s.deletionAmong(ctx, l, lo, hi, s.explained.upTo); err != nil || deleted != 0 {
			return deleted, err
		}
	}
	return s.bisect(ctx, l, lo, hi)
}

// deletionAmong finds the revision in (lo, hi] at which the object was deleted, among those that nothing else explains yet. 0:
// there is none, so a revision wrote more than one object.
func (s *search) deletionAmong(ctx context.Context, l *incarnation, lo, hi uint64,
	unexplained func(lo, hi uint64) []uint64) (uint64, error) {
	for {
		open := unexplained(lo, hi)
		if len(open) == 0 {
			return 0, nil
		}
		if len(open) == 1 {
			return s.left(ctx, l, open[0], hi)
		}
		mid := open[(len(open)-1)/2]
		exists, err := s.exists(ctx, l, mid)
		if err != nil {
			return 0, err
		}
		if exists {
			lo = mid
		} else {
			hi = mid
		}
	}
}

func (s *search) bisect(ctx context.Context, l *incarnation, lo, hi uint64) (uint64, error) {
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		exists, err := s.exists(ctx, l, mid)
		if err != nil {
			return 0, err
		}
		if exists {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi, nil
}

// exists reports whether the incarnation exists at the revision. It records what the read shows of it.
func (s *search) exists(ctx context.Context, l *incarnation, revision uint64) (bool, error) {
	o, exists, err := s.history.Object(ctx, l.key, revision)
	if IsLost(err) {
		if lost := s.lose(ctx, revision, err); lost != nil {
			return false, lost
		}
	}
	if err != nil || !exists || o.UID != l.uid {
		return false, err
	}
	version, err := o.Version.Revision()
	if err == nil && version > max(s.From, l.version) && (l.logged || len(l.seen) > 0) && s.Kind.isBounded() {
		l.seen = saw(slices.Clip(l.seen), version, revision, s.keep(o.Raw))
		s.explain(version)
	}
	return true, err
}

// dateDeletions finds, before sizes are read, when objects were deleted, if that costs less than afterwards. A size of a large
// collection costs more than several reads of one object, and each deletion that is found saves a size. The oldest deletions come
// first, since compaction takes them first.
func (s *search) dateDeletions(ctx context.Context) error {
	if !s.Kind.isBounded() {
		return nil
	}
	spans, costs := map[span][]*incarnation{}, s.meter.now()
	for _, l := range s.ended {
		n := span{l.lastSeen, l.firstMissing}
		spans[n] = append(spans[n], l)
	}
	var early, late []*incarnation
	for n, ended := range spans {
		u, deleted := float64(len(s.explained.unexplained(n.from, n.to+1))), float64(len(ended))
		if n.from >= s.oldest.Load() && math.Log2(u/deleted)*costs.read < costs.size {
			early = append(early, ended...)
		} else {
			late = append(late, ended...)
		}
	}
	slices.SortFunc(early, func(x, y *incarnation) int {
		return cmp.Or(cmp.Compare(x.lastSeen, y.lastSeen), cmp.Compare(x.firstMissing, y.firstMissing), cmp.Compare(x.key, y.key))
	})
	s.ended = late
	return s.each(ctx, early, func(ctx context.Context, l *incarnation) error { return s.dateAmong(ctx, l, s.explained.upTo) })
}

// dateAmong finds when the incarnation was deleted, among the candidates: the revisions between two others at which that can have
// happened. If it finds none, the sizes decide.
func (s *search) dateAmong(ctx context.Context, l *incarnation, candidates func(lo, hi uint64) []uint64) error {
	deleted, err := s.deletionAmong(ctx, l, l.lastSeen, l.firstMissing, candidates)
	switch {
	case IsLost(err) || err == nil && deleted == 0:
		s.recordEnd(l, l.lastSeen, l.firstMissing)
		return nil
	case err != nil:
		return err
	}
	s.recordDeletion(l, deleted)
	return nil
}
