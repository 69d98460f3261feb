package recovery

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
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
	namespace           string
	asLogged            uint64 // the newest past list that has it as the log has it
	firstSeen, lastSeen uint64 // the oldest and the newest past list that has it
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

// pastList is a past list that was read as a whole.
type pastList struct {
	at        uint64
	namespace string // empty: all
}

// listedByteCost is the cost of a byte of a listed object, as a part of a single read, and assumedBytes the size of a body before
// the first one was read.
const listedByteCost, assumedBytes = 1.0 / 200_000, 2000

// listedCost is the cost of a listed object, as a part of a single read: 18 us, and 10 ns a byte (kube-apiserver 1.36 on two cores of
// an AMD EPYC), of the 2 ms that a request takes at 500 a second. worthwhile is how many reads a past list must save at least.
var listedCost, worthwhile = 1.0 / 110, 4.0

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
	if float64(len(s.Changed)) > s.pastListCost("") {
		if err := s.readPastList(ctx, "", span{s.From, s.To}); err != nil {
			return err
		}
	}
	if err := s.halve(ctx, "", []span{{s.oldestReadable(), s.To}}); err != nil || !s.Namespaced {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.ListedIn)) {
		var level []span
		from := s.oldestReadable()
		for _, l := range s.pastLists {
			if l.at > from && l.at < s.To && l.namespace == "" {
				level, from = append(level, span{from, l.at}), l.at
			}
		}
		if err := s.halve(ctx, namespace, append(level, span{from, s.To})); err != nil {
			return err
		}
	}
	return nil
}

// halve reads past lists of a namespace, or of all, in the middle of spans, then of their halves.
func (s *search) halve(ctx context.Context, namespace string, level []span) error {
	for len(level) > 0 {
		middles := make([]uint64, len(level))
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(s.Parallel)
		for i, n := range level {
			if middles[i] = s.middle(namespace, n); middles[i] != 0 {
				group.Go(func() error { return s.readPastList(inner, namespace, span{n.from, middles[i]}) })
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
	slices.SortFunc(s.pastLists, func(x, y pastList) int { return cmp.Compare(x.at, y.at) })
	return nil
}

// pastListCost returns what a past list of a namespace costs, or of all, in reads of one object.
func (s *search) pastListCost(namespace string) float64 {
	listed := s.Listed
	if namespace != "" {
		listed = s.ListedIn[namespace]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := float64(assumedBytes)
	if s.bodies > 0 {
		bytes = float64(s.bodyBytes) / float64(s.bodies)
	}
	pages := float64(listed/fullPage + 1)
	return max(pages, float64(listed)*(listedCost+bytes*listedByteCost), worthwhile)
}

// middle returns the revision in the middle of the span at which a past list saves more than it costs; 0: none.
func (s *search) middle(namespace string, n span) uint64 {
	unexplained := s.explained.between(n.from, n.to)
	s.mu.Lock()
	changes, deleted := 0, 0
	if known := s.changes[namespace]; known != nil {
		changes = known.count(n.from, n.to)
	}
	for _, x := range s.sightings {
		if x.lastSeen >= n.from && x.lastSeen < n.to && (namespace == "" || namespace == x.namespace) {
			deleted++
		}
	}
	if n.from <= s.From { // those that no past list has
		for _, key := range s.Missing {
			if in, _ := change.SplitKey(key); namespace == "" || namespace == in {
				deleted++
			}
		}
	}
	s.mu.Unlock()
	u := float64(len(unexplained))
	saved := 0.75*min(float64(changes), u) + 0.6*float64(changes)/max(u, 1) + min(float64(deleted), u)
	if u == 0 || saved < s.pastListCost(namespace) {
		return 0
	}
	return unexplained[len(unexplained)/2]
}

// readPastList lists a namespace, or all, at the end of the span. Bodies are of objects that changed in the span.
func (s *search) readPastList(ctx context.Context, namespace string, n span) error {
	err := s.history.Objects(ctx, namespace, n.to, n.from, func(o apiclient.Object) error {
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
		s.pastLists = append(s.pastLists, pastList{n.to, namespace})
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
		x = &sighting{namespace: o.Namespace, firstSeen: at}
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
	s.noteChange(o.Namespace, version)
}

// noteChange records a change that a list shows. Its callers hold the lock.
func (s *search) noteChange(namespace string, version uint64) {
	s.explain(version)
	s.changes[""].add(version)
	if namespace != "" {
		if s.changes[namespace] == nil {
			s.changes[namespace] = &revisions{}
		}
		s.changes[namespace].add(version)
	}
}

// noteSightings applies what the past lists show to an incarnation.
func (s *search) noteSightings(l *incarnation) {
	x := s.sightings[identity{l.key, l.uid}]
	switch {
	case x == nil:
	case l.logged:
		l.seen, l.floor = x.revisions, x.asLogged
	default:
		l.seen, l.floor = x.revisions, s.lastPastList(l.key, x.firstSeen-1)
	}
}

// lastPastList returns the newest past list at or below the revision that would have the key; 0: there is none.
func (s *search) lastPastList(key string, at uint64) (last uint64) {
	namespace, _ := change.SplitKey(key)
	for _, l := range s.pastLists {
		if l.at <= at && (l.namespace == "" || l.namespace == namespace) {
			last = max(last, l.at)
		}
	}
	return last
}

// nextPastList returns the oldest past list after the revision that would have the key; To: there is none.
func (s *search) nextPastList(key string, after uint64) uint64 {
	namespace, _ := change.SplitKey(key)
	next := s.To
	for _, l := range s.pastLists {
		if l.at > after && (l.namespace == "" || l.namespace == namespace) {
			next = min(next, l.at)
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
			s.noteEnd(s.newIncarnation(key, k.UID), s.From, s.nextPastList(key, s.From))
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
		s.noteEnd(l, at, s.nextPastList(id.key, at))
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
