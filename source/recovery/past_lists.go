package recovery

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"kubecdc/source/apiclient"
)

// This file lists the whole collection, with bodies, at revisions in the middle of a gap. A past list shows the last change of
// each object before it, and whether it exists there. In a gap of many changes that is cheaper than to read each change by
// itself, and it bounds where objects were deleted. A past list only explains revisions: what happened at the others is found out
// afterwards, as without past lists.
//
// The gap is halved at the middle one of its unexplained revisions, then each half, as long as a past list saves more reads than
// it costs. Nothing is saved where nothing changed, so a quiet collection is not listed.
//
// With selectors no past list is read, since an object can leave the collection and come back under one uid.

// sighting is what past lists show of an object.
type sighting struct {
	revisions           []seenRevision // newest first
	asLogged            uint64         // the newest past list that has it as the log has it
	firstSeen, lastSeen uint64         // the oldest and the newest past list that has it
}

// seenRevision is a revision of an object that is current in some past list. The object did not change after it, up to
// the newest of these.
type seenRevision struct {
	revision
	until uint64
}

// seenAt returns the newest revision that past lists show of the incarnation, at or below this one.
func (l *incarnation) seenAt(at uint64) (r seenRevision, ok bool) {
	for _, r := range l.seen {
		if r.version <= at {
			return r, true
		}
	}
	return r, false
}

// before returns the newest revision, at or below this one, at which the incarnation may have changed.
func (s *search) before(l *incarnation, at uint64) uint64 {
	unexplained := s.explained.highest(at)
	if seen, ok := l.seenAt(at); ok && unexplained <= seen.until {
		return seen.version
	}
	return unexplained
}

// span are the revisions in (from, to].
type span struct{ from, to uint64 }

const (
	// The cost of a listed object and of each of its bytes, as parts of a single read: 18 us and 10 ns (kube-apiserver 1.36 on two
	// cores of an AMD EPYC) of the 2 ms that a request takes at 500 a second.
	listedCost, listedByteCost = 1.0 / 110, 1.0 / 200_000
	// assumedBytes is the size of a body before the first one was read.
	assumedBytes = 2000
)

// worthwhile is how many reads a past list must save at least.
var worthwhile = 4.0

// readPastLists takes the past lists that save more than they cost.
func (s *search) readPastLists(ctx context.Context) error {
	if s.Aggregated || s.Leased || s.Selected {
		return nil
	}
	for _, o := range s.Changed {
		s.watched[identity{o.Key(), o.UID}] = true
	}
	for _, key := range s.Missing {
		k, _ := s.log.Get(key)
		s.watched[identity{key, k.UID}] = true
	}
	if float64(len(s.Changed)) > s.pastListCost() {
		if err := s.readPastList(ctx, span{s.From, s.To}); err != nil {
			return err
		}
	}
	for level := []span{{s.oldestReadable(), s.To}}; len(level) > 0; {
		middles := make([]uint64, len(level))
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(s.Parallel)
		for i, n := range level {
			if middles[i] = s.middle(n); middles[i] != 0 {
				group.Go(func() error { return s.readPastList(inner, span{n.from, middles[i]}) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
		var next []span
		for i, n := range level {
			if middles[i] > s.oldestReadable() {
				next = append(next, span{n.from, middles[i]}, span{middles[i], n.to})
			}
		}
		level = next
	}
	return nil
}

// pastListCost returns what a past list costs, in reads of one object.
func (s *search) pastListCost() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := float64(assumedBytes)
	if s.bodies > 0 {
		bytes = float64(s.bodyBytes) / float64(s.bodies)
	}
	pages := float64(s.Listed/fullPage + 1)
	return max(pages, float64(s.Listed)*(listedCost+bytes*listedByteCost), worthwhile)
}

// middle returns the revision in the middle of the span at which a past list saves more than it costs; 0: none.
func (s *search) middle(n span) uint64 {
	unexplained := s.explained.between(n.from, n.to)
	changes := s.explained.own.count(n.from, n.to)
	s.mu.Lock()
	deleted := 0
	for _, x := range s.sightings {
		if x.lastSeen >= n.from && x.lastSeen < n.to {
			deleted++
		}
	}
	if n.from <= s.From { // those that no past list has
		deleted += len(s.Missing)
	}
	s.mu.Unlock()
	u := float64(len(unexplained))
	saved := 0.75*min(float64(changes), u) + 0.6*float64(changes)/max(u, 1) + min(float64(deleted), u)
	if u == 0 || saved < s.pastListCost() {
		return 0
	}
	return unexplained[len(unexplained)/2]
}

// readPastList lists the collection at the end of the span. Bodies are of objects that changed in the span.
func (s *search) readPastList(ctx context.Context, n span) error {
	err := s.history.Objects(ctx, n.to, n.from, func(o apiclient.Object) error {
		version, err := o.Version.Revision()
		if err != nil {
			return err
		}
		s.sight(o, version, n.to)
		return nil
	})
	if apiclient.IsGone(err) {
		return s.compacted(ctx, n.to)
	}
	if err == nil {
		s.mu.Lock()
		s.pastLists = append(s.pastLists, n.to)
		s.mu.Unlock()
	}
	return err
}

// sight records an object of a past list, if it is one that changed or is missing at the end of the gap.
func (s *search) sight(o apiclient.Object, version, at uint64) {
	id := identity{o.Key(), o.UID}
	asLogged := version <= s.From
	s.mu.Lock()
	defer s.mu.Unlock()
	if asLogged && !s.watched[id] {
		return
	}
	x := s.sightings[id]
	if x == nil {
		x = &sighting{firstSeen: at}
		s.sightings[id] = x
	}
	x.firstSeen, x.lastSeen = min(x.firstSeen, at), max(x.lastSeen, at)
	if asLogged {
		x.asLogged = max(x.asLogged, at)
		return
	}
	newestFirst := func(r seenRevision, v uint64) int { return cmp.Compare(v, r.version) }
	i, found := slices.BinarySearchFunc(x.revisions, version, newestFirst)
	if found {
		x.revisions[i].until = max(x.revisions[i].until, at)
		return
	}
	if len(o.Raw) > 0 {
		s.bodies, s.bodyBytes = s.bodies+1, s.bodyBytes+int64(len(o.Raw))
	}
	x.revisions = slices.Insert(x.revisions, i, seenRevision{revision{version, s.keep(o.Raw)}, at})
	s.explain(version)
}

// noteSightings applies what the past lists show to an incarnation.
func (s *search) noteSightings(l *incarnation) {
	x := s.sightings[identity{l.key, l.uid}]
	switch {
	case x == nil:
	case l.logged:
		l.seen, l.floor = x.revisions, x.asLogged
	default:
		l.seen, l.floor = x.revisions, s.lastPastList(x.firstSeen-1)
	}
}

// lastPastList returns the newest past list at or below the revision; 0: there is none.
func (s *search) lastPastList(at uint64) (last uint64) {
	for _, t := range s.pastLists {
		if t <= at {
			last = max(last, t)
		}
	}
	return last
}

// nextPastList returns the oldest past list after the revision; To: there is none.
func (s *search) nextPastList(after uint64) uint64 {
	next := s.To
	for _, t := range s.pastLists {
		if t > after {
			next = min(next, t)
		}
	}
	return next
}

// noteDeleted records the incarnations that end in the gap: known objects that are missing, and objects that only past lists
// show. The latter are walked back at once from where they were last seen, since the sizes can only be read when their creations
// are known.
func (s *search) noteDeleted(ctx context.Context) error {
	var transient []*incarnation
	for _, key := range s.Missing {
		k, _ := s.log.Get(key)
		if x := s.sightings[identity{key, k.UID}]; x == nil {
			s.noteEnd(s.newIncarnation(key, k.UID), s.From, s.nextPastList(s.From))
		}
	}
	ids := slices.SortedFunc(maps.Keys(s.sightings), func(x, y identity) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.uid, y.uid))
	})
	exists := map[identity]bool{}
	for _, o := range s.Changed {
		exists[identity{o.Key(), o.UID}] = true
	}
	for _, id := range ids {
		if exists[id] {
			continue
		}
		l, at := s.newIncarnation(id.key, id.uid), s.sightings[id].lastSeen
		s.noteEnd(l, at, s.nextPastList(at))
		if !l.logged {
			transient = append(transient, l)
		}
	}
	return s.each(ctx, transient, func(ctx context.Context, l *incarnation) error {
		err := s.walkBack(ctx, l, s.before(l, l.lastSeen), l.lastSeen)
		l.walked = l.lastSeen
		return err
	})
}

// keptBody returns the body if it may be held.
func (s *search) keptBody(body []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(body)
}

// keep returns the body if it may be held. Its callers hold the lock.
func (s *search) keep(body []byte) []byte {
	if s.bytes += int64(len(body)); s.bytes > bodiesKept {
		return nil
	}
	return body
}
