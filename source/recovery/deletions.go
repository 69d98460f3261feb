package recovery

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"kubecdc/source/apiclient"
)

// This file finds out which objects were deleted. A collection that fits one page is listed just before each deletion: the
// object that is listed just before deletion N but not just before deletion N+1 was deleted at N. In a larger collection the
// deletion of an object that the log has is found by bisecting the open deletions, those whose object is not found yet. A
// transient object is found by listing names at the revision at which most unknown objects exist.

// findDeletions finds the end of every incarnation that ends in the gap, and all of its revisions.
func (s *search) findDeletions(ctx context.Context) error {
	if err := s.findNarrowDeletions(ctx); err != nil {
		return err
	}
	if s.sizes != nil && s.fitsOnePage() {
		if err := s.listBeforeDeletions(ctx); err != nil {
			return err
		}
	}
	for last := int64(-1); ; {
		for len(s.ended) > 0 {
			ended := s.ended
			s.ended = nil
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

// findNarrowDeletions finds the deletions for which at most two revisions are left: that takes one read or none. Each one found
// may leave fewer revisions for others.
func (s *search) findNarrowDeletions(ctx context.Context) error {
	for s.sizes != nil {
		var narrow, wide []*incarnation
		for _, l := range s.ended {
			if s.sizes.fewOpenDeletions(l.lastSeen, l.firstMissing) {
				narrow = append(narrow, l)
			} else {
				wide = append(wide, l)
			}
		}
		if len(narrow) == 0 {
			break
		}
		s.ended = wide
		if err := s.each(ctx, narrow, s.findDeletion); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) fitsOnePage() bool {
	for _, n := range s.sizes.counts {
		if n > s.tuning.onePage {
			return false
		}
	}
	return true
}

type identity struct{ key, uid string }

// listBeforeDeletions reads the names before each deletion and finds the object that was deleted. It goes from the newest
// deletion to the oldest, several of them concurrently.
func (s *search) listBeforeDeletions(ctx context.Context) error {
	deletions := s.sizes.openDeletions(s.oldest.Load(), s.To)
	deletions = slices.DeleteFunc(deletions, func(r uint64) bool { return r-1 < s.oldest.Load() })
	slices.Reverse(deletions)
	var after map[identity]bool // what exists just before the next deletion; nil: the list
	for len(deletions) > 0 {
		batch := deletions[:min(len(deletions), s.Parallel)]
		deletions = deletions[len(batch):]
		names := make([]map[identity]bool, len(batch))
		group, inner := errgroup.WithContext(ctx)
		for i, r := range batch {
			group.Go(func() (err error) { names[i], err = s.namesAt(inner, r-1); return err })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		var deleted []*incarnation
		for i, r := range batch {
			if names[i] != nil {
				here := s.deletedAt(names[i], after, r, deleted)
				if len(here) > 1 && s.oneKey() {
					return errSeveralKeys
				}
				deleted = append(deleted, here...)
			}
			after = names[i]
			if after == nil {
				return s.each(ctx, deleted, s.walkListed) // compacted: findDeletion records that the older ones are lost
			}
		}
		if err := s.each(ctx, deleted, s.walkListed); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) namesAt(ctx context.Context, at uint64) (map[identity]bool, error) {
	names := map[identity]bool{}
	err := s.history.Names(ctx, "", at, func(o apiclient.Object) error {
		names[identity{o.Key(), o.UID}] = true
		return nil
	})
	if IsLost(err) {
		return nil, s.lose(ctx, at, err)
	}
	return names, err
}

// deletedAt returns the incarnations that end at the deletion, but for keys of which a later one is to be walked back first: it
// may be the one that the log has. An object that is back after the deletion, under its uid, is found by findDeletion.
func (s *search) deletedAt(before, after map[identity]bool, revision uint64, later []*incarnation) (deleted []*incarnation) {
	for id := range before {
		if after != nil && after[id] || after == nil && s.existsAtEnd(id) || s.endIsKnown(id, revision) ||
			slices.ContainsFunc(later, func(l *incarnation) bool { return l.key == id.key }) {
			continue
		}
		l := s.endedIncarnation(id, revision)
		s.noteDeletion(l, revision)
		deleted = append(deleted, l)
	}
	return deleted
}

// endIsKnown reports whether the end of the incarnation that exists just before the revision is found already.
func (s *search) endIsKnown(id identity, revision uint64) bool {
	return slices.ContainsFunc(s.incarnations[id.key], func(l *incarnation) bool {
		return l.uid == id.uid && l.created < revision && l.deleted >= revision
	})
}

func (s *search) existsAtEnd(id identity) bool {
	incarnations := s.incarnations[id.key]
	for _, l := range incarnations {
		if l.uid == id.uid && l.firstMissing == 0 && l.deleted == 0 {
			return true
		}
	}
	k, ok := s.log.Get(id.key)
	return len(incarnations) == 0 && ok && k.UID == id.uid
}

// endedIncarnation returns the incarnation that is known to end around the deletion, or a new one.
func (s *search) endedIncarnation(id identity, deletion uint64) *incarnation {
	for i, l := range s.ended {
		if l.key == id.key && l.uid == id.uid && l.lastSeen < deletion && deletion <= l.firstMissing {
			s.ended = slices.Delete(s.ended, i, i+1)
			return l
		}
	}
	return s.transient(id.key, id.uid)
}

// transient adds an incarnation that was created and deleted in the gap. What the log has under its key is another one.
func (s *search) transient(key, uid string) *incarnation {
	l := s.newIncarnation(key, uid)
	for _, other := range s.incarnations[key] {
		if other != l && other.logged && other.uid == uid {
			l.logged, l.version = false, 0
		}
	}
	return l
}

// noteDeletion records the revision at which the incarnation was deleted. Other streams are told once that is certain: until the
// incarnation is walked back, or the sizes are checked, it holds only if a revision deletes one object.
func (s *search) noteDeletion(l *incarnation, revision uint64) {
	s.mu.Lock()
	l.deleted = revision
	s.mu.Unlock()
	s.explainHere(revision)
	s.sizes.deletion(revision)
}

// oneKey reports whether a revision deletes one object of the collection, as far as is known.
func (s *search) oneKey() bool { return !s.Leased && !s.Aggregated }

// walkDeleted walks a deleted incarnation back. Even if the revision before its deletion is explained, the first read is there:
// if the incarnation does not exist there, it was deleted at an earlier revision, together with another object.
func (s *search) walkDeleted(ctx context.Context, l *incarnation) error {
	last := l.deleted - 1
	at := s.before(l, last)
	if s.oneKey() {
		at = last
	}
	return s.walkBack(ctx, l, at, last)
}

// walkListed walks back an incarnation that one list of names has and the next one has not. With a selector another one may have
// left at the revision and be back in the next list, while this one was deleted after it, where only other streams know of a change.
func (s *search) walkListed(ctx context.Context, l *incarnation) error {
	if !s.Selected || s.Participant == nil {
		return s.walkDeleted(ctx, l)
	}
	switch exists, err := s.exists(ctx, l, l.deleted); {
	case IsLost(err):
		return s.walkDeleted(ctx, l)
	case err != nil || exists:
		return cmp.Or(err, errSeveralKeys)
	}
	return s.walkDated(ctx, l)
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

// left takes the only revision that is left for the deletion of an incarnation that is missing at hi. What is between them is
// explained: if the incarnation exists after all, it was deleted there, together with another object.
func (s *search) left(ctx context.Context, l *incarnation, revision, hi uint64) (uint64, error) {
	if !s.oneKey() || hi == revision {
		return revision, nil
	}
	exists, err := s.exists(ctx, l, revision)
	if err == nil && exists {
		err = errSeveralKeys
	}
	return revision, err
}

// bound bounds where the incarnation was deleted by what is known of others under its key by now. It reports whether one of them
// is the same.
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
		s.noteDeletion(l, deleted)
		return s.walkDated(ctx, l)
	}
}

// deletionBetween finds the first revision in (lo, hi] at which the object does not exist: among the open deletions, or, if
// sizes are not known, among all revisions.
func (s *search) deletionBetween(ctx context.Context, l *incarnation, lo, hi uint64) (uint64, error) {
	if s.sizes != nil {
		if deleted, err := s.deletionAmong(ctx, l, lo, hi, s.sizes.openDeletions); err != nil || deleted != 0 {
			return deleted, err
		}
		s.contradiction(fmt.Sprintf("%s was deleted between revisions %d and %d, and the collection's sizes do not show where",
			l.key, lo, hi))
	} else if !s.unbounded() {
		if deleted, err := s.deletionAmong(ctx, l, lo, hi, s.explained.upTo); err != nil || deleted != 0 {
			return deleted, err
		}
	}
	return s.bisect(ctx, l, lo, hi)
}

// deletionAmong finds the revision in (lo, hi] at which the object was deleted, among those that nothing else explains yet. 0: there
// is none, so a revision wrote more than one object.
func (s *search) deletionAmong(ctx context.Context, l *incarnation, lo, hi uint64, unexplained func(lo, hi uint64) []uint64) (uint64, error) {
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

// exists reports whether the incarnation exists at the revision. What the read shows of it is noted.
func (s *search) exists(ctx context.Context, l *incarnation, at uint64) (bool, error) {
	o, exists, err := s.history.Object(ctx, l.key, at)
	if IsLost(err) {
		if lost := s.lose(ctx, at, err); lost != nil {
			return false, lost
		}
	}
	if err != nil || !exists || o.UID != l.uid {
		return false, err
	}
	version, err := o.Version.Revision()
	if err == nil && version > max(s.From, l.version) && (l.logged || len(l.seen) > 0) && !s.unbounded() {
		l.seen = saw(slices.Clip(l.seen), version, at, s.keep(o.Raw))
		s.explain(version)
	}
	return true, err
}

// dateDeletions finds, before sizes are read, when objects were deleted, where that costs less than afterwards: a size of a large
// collection costs more than several reads of one object, and a deletion that is found saves one. The oldest come first, since
// compaction takes them first.
func (s *search) dateDeletions(ctx context.Context) error {
	if s.unbounded() {
		return nil
	}
	spans, costs := map[span][]*incarnation{}, s.meter.now()
	for _, l := range s.ended {
		n := span{l.lastSeen, l.firstMissing}
		spans[n] = append(spans[n], l)
	}
	var early, late []*incarnation
	for n, ended := range spans {
		u, deleted := float64(len(s.explained.between(n.from, n.to+1))), float64(len(ended))
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
	return s.each(ctx, early, func(ctx context.Context, l *incarnation) error {
		deleted, err := s.deletionAmong(ctx, l, l.lastSeen, l.firstMissing, s.explained.upTo)
		switch {
		case IsLost(err) || err == nil && deleted == 0:
			s.noteEnd(l, l.lastSeen, l.firstMissing) // the sizes decide
			return nil
		case err != nil:
			return err
		}
		s.noteDeletion(l, deleted)
		return nil
	})
}
