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

// This file lists the complete collection, or a namespace, at revisions in the middle of a gap. A past list shows the last change
// of each object before it, and whether it exists there. In a gap of many changes that is cheaper than to read each change by
// itself, and it bounds where objects were deleted. A past list only explains revisions. The other revisions are read afterwards,
// as without past lists.
//
// The gap is halved at the middle one of its unexplained revisions, then each half is halved. This goes on while a past list
// saves more time than it costs (costs.go). Nothing is saved where nothing changed, so a quiet collection is not listed. A list
// without bodies is cheaper, and enough where few bodies would be new.
//
// With selectors no past list is read, since an object can leave the collection and come back under one uid.

// sighting is what past lists show of an object.
type sighting struct {
	revisions           []seenRevision // newest first
	asLogged            uint64         // the newest past list in which it is as in the log
	firstSeen, lastSeen uint64         // the oldest and the newest past list that has it
}

// seenRevision is a revision of an object that is current in some past list. The object did not change after it, up to
// the newest of these.
type seenRevision struct {
	revision
	until uint64
}

// seenAt returns the newest revision that past lists show of the incarnation, at or below this one.
func (l *incarnation) seenAt(revision uint64) (r seenRevision, ok bool) {
	for _, r := range l.seen {
		if r.version <= revision {
			return r, true
		}
	}
	return r, false
}

// before returns the newest revision, at or below this one, at which the incarnation may have changed.
func (s *search) before(l *incarnation, revision uint64) uint64 {
	unexplained := s.explained.highest(revision)
	if seen, ok := l.seenAt(revision); ok && unexplained <= seen.until {
		return seen.version
	}
	return unexplained
}

// span are the revisions in (from, to].
type span struct{ from, to uint64 }

// pastList is a past list that was read to its end.
type pastList struct {
	revision  uint64
	namespace string // empty: all
}

// readPastLists reads the past lists that save more than they cost.
func (s *search) readPastLists(ctx context.Context) error {
	if !s.Kind.isBounded() {
		return nil
	}
	for _, key := range s.Missing {
		k, _ := s.log.Get(key)
		s.watched[identity{key, k.UID}] = true
	}
	for _, o := range s.Changed {
		s.watched[identity{o.Key(), o.UID}] = true
		version, _ := o.Version.Revision()
		s.sight(o, version, s.To, nil)
	}
	all, costs := span{s.From, s.To}, s.meter.now()
	if !s.witness && float64(len(s.Changed))*costs.read > max(costs.listCost(s.Listed, true), s.tuning.worthwhile*costs.read) {
		if err := s.readPastList(ctx, "", all, s.To, true); err != nil {
			return err
		}
	}
	if err := s.halve(ctx, "", []span{{s.oldest.Load(), s.To}}); err != nil || !s.Namespaced {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.ListedIn)) {
		var level []span
		from := s.oldest.Load()
		for _, l := range s.pastLists {
			if l.revision > from && l.revision < s.To && l.namespace == "" {
				level, from = append(level, span{from, l.revision}), l.revision
			}
		}
		if err := s.halve(ctx, namespace, append(level, span{from, s.To})); err != nil {
			return err
		}
	}
	return nil
}

// shown returns how many changes past lists show, or 0 if more changes remain to be found.
func (s *search) shown() (n int) {
	for _, x := range s.sightings {
		n += len(x.revisions)
	}
	if len(s.pastLists) == 0 || n <= 2*len(s.Changed) {
		return 0
	}
	return n
}

// letOthersWalk lets the other recoveries explain their changes first, if past lists show most of this one's changes. Then little
// remains to be read between the lists. The other recoveries may even end first, if that costs fewer reads. Then they read sizes
// at revisions that this recovery has not found. In the other order, this recovery reads objects before the others have explained
// their deletions.
func (s *search) letOthersWalk(ctx context.Context) error {
	shown := s.shown()
	if shown == 0 {
		return nil
	}
	err := s.Participant.awaitTurn(ctx, deferring)
	if err == nil && s.sizesToRead() < float64(shown) {
		err = s.Participant.awaitTurn(ctx, late)
	}
	s.Participant.locked(func(*Coordinator) { s.Participant.enter(walking) })
	return err
}

// listsAtOnce bounds the lists of the past that are read at once, since each holds a page in memory.
const listsAtOnce = 4

// halve reads past lists of a namespace, or of all, in the middle of spans, then of their halves.
func (s *search) halve(ctx context.Context, namespace string, level []span) error {
	newcomers := 0.0
	for len(level) > 0 {
		ends := s.ends()
		s.newcomers[namespace] = 0
		middles, lists := make([]uint64, len(level)), 0
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(min(s.Parallel, listsAtOnce))
		for i, n := range level {
			revision, bodies := s.middle(namespace, n, ends, newcomers)
			if middles[i] = revision; revision != 0 {
				lists++
				group.Go(func() error { return s.readPastList(inner, namespace, n, revision, bodies) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
		// An object that comes and goes within a span is in the list of the span's middle one time in two. Spans of half the
		// length have half as many such objects in all.
		newcomers = s.newcomers[namespace] / float64(max(lists, 1)) / 4
		var next []span
		for i, n := range level {
			if middles[i] > s.oldest.Load() {
				next = append(next, span{n.from, middles[i]}, span{middles[i], n.to})
			}
		}
		level = next
	}
	slices.SortFunc(s.pastLists, func(x, y pastList) int { return cmp.Compare(x.revision, y.revision) })
	return nil
}

// ends returns how many objects were last seen at a revision and are missing later, by namespace. Namespace "" has all objects.
func (s *search) ends() map[string]map[uint64]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := map[string]map[uint64]int{}
	add := func(namespace string, revision uint64) {
		if ends[namespace] == nil {
			ends[namespace] = map[uint64]int{}
		}
		ends[namespace][revision]++
	}
	for id, x := range s.sightings {
		if x.lastSeen < s.To {
			add("", x.lastSeen)
			namespace, _ := change.SplitKey(id.key)
			add(namespace, x.lastSeen)
		}
	}
	for _, key := range s.Missing {
		if k, _ := s.log.Get(key); s.sightings[identity{key, k.UID}] == nil {
			add("", s.From)
			namespace, _ := change.SplitKey(key)
			add(namespace, s.From)
		}
	}
	return ends
}

// middle returns the revision in the middle of the span if a past list there saves more than it costs, else 0. bodies reports
// whether that list needs bodies. newcomers is how many transient objects the list is expected to be the first to show.
func (s *search) middle(namespace string, n span, ends map[string]map[uint64]int, newcomers float64) (revision uint64,
	bodies bool) {
	unexplained := s.explained.unexplained(n.from, n.to)
	if len(unexplained) == 0 {
		return 0, false
	}
	u, costs, best := len(unexplained), s.meter.now(), 0.0
	for _, full := range []bool{false, true} {
		if full && s.witness { // it has no use for bodies
			break
		}
		listed := s.Listed
		if namespace != "" {
			listed = s.ListedIn[namespace]
		}
		saved := s.saved(namespace, n, u, ends[namespace], full) * costs.read
		found := min(newcomers, 2) * costs.listCost(listed, false)
		enough := saved+found > s.tuning.worthwhile*costs.read
		if namespace == "" && s.Namespaced && costs.listCost(listed, full) > s.tuning.worthwhile*costs.read {
			// A list of all saves no more than lists of the namespaces would cost.
			each := 0.0
			for in, listed := range s.ListedIn {
				each += min(s.saved(in, n, u, ends[in], full)*costs.read, costs.listCost(listed, full))
			}
			saved = min(saved, each)
		}
		if gain := saved + found - costs.listCost(listed, full); gain > best && enough {
			revision, bodies, best = unexplained[u/2], full, gain
		}
	}
	return revision, bodies
}

// saved estimates how many reads a list in the middle of the span saves, of one namespace or of all. It saves one read for each
// object that is deleted in the span. With bodies it saves another one for each object that has changed twice. u revisions are
// unexplained.
func (s *search) saved(namespace string, n span, u int, ends map[uint64]int, bodies bool) float64 {
	deleted := 0
	for revision, n2 := range ends {
		if revision >= n.from && revision < n.to {
			deleted += n2
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := 0.0
	if known := s.changes[namespace]; known != nil {
		changes = float64(known.count(n.from, n.to))
	}
	saved := min(float64(deleted), float64(u)) + 0.6*changes/float64(u)
	if bodies || s.witness {
		saved += 0.6 * min(changes, float64(max(u-deleted, 0)))
	}
	return saved
}

// readPastList lists a namespace, or all, at a revision. Bodies are of objects that changed in the span.
func (s *search) readPastList(ctx context.Context, namespace string, n span, revision uint64, bodies bool) error {
	visit := func(o apiclient.Object) error {
		version, err := o.Version.Revision()
		if err != nil {
			return err
		}
		body := o.Raw
		if !bodies {
			body = nil
		}
		s.sight(o, version, revision, body)
		return nil
	}
	err := error(nil)
	if bodies {
		err = s.history.Objects(ctx, namespace, revision, n.from, visit)
	} else {
		err = s.history.Names(ctx, namespace, revision, visit)
	}
	if IsLost(err) {
		return s.lose(ctx, revision, err)
	}
	if err == nil {
		s.mu.Lock()
		s.pastLists = append(s.pastLists, pastList{revision, namespace})
		s.mu.Unlock()
	}
	return err
}

// sight records an object of a list, if it is one that changed or is missing at the end of the gap.
func (s *search) sight(o apiclient.Object, version, revision uint64, body []byte) {
	id := identity{o.Key(), o.UID}
	asLogged := version <= s.From
	s.mu.Lock()
	defer s.mu.Unlock()
	if asLogged && !s.watched[id] {
		return
	}
	x := s.sightings[id]
	if x == nil {
		x = &sighting{firstSeen: revision}
		s.sightings[id] = x
		if !s.watched[id] {
			s.newcomers[""]++
			s.newcomers[o.Namespace]++
		}
	}
	x.firstSeen, x.lastSeen = min(x.firstSeen, revision), max(x.lastSeen, revision)
	if asLogged {
		x.asLogged = max(x.asLogged, revision)
		return
	}
	x.revisions = saw(x.revisions, version, revision, s.keep(body))
	s.recordChange(o.Namespace, version)
}

// saw adds to what was seen of an object, newest first, that its revision was current at another one.
func saw(seen []seenRevision, version, readAt uint64, body []byte) []seenRevision {
	newestFirst := func(r seenRevision, v uint64) int { return cmp.Compare(v, r.version) }
	i, found := slices.BinarySearchFunc(seen, version, newestFirst)
	if !found {
		return slices.Insert(seen, i, seenRevision{revision{version, body}, readAt})
	}
	seen[i].until = max(seen[i].until, readAt)
	if seen[i].body == nil {
		seen[i].body = body
	}
	return seen
}

// recordChange records a change that a list shows. Its callers hold the lock.
func (s *search) recordChange(namespace string, version uint64) {
	s.explain(version)
	s.changes[""].add(version)
	if namespace != "" {
		if s.changes[namespace] == nil {
			s.changes[namespace] = &revisions{}
		}
		s.changes[namespace].add(version)
	}
}

func (s *search) recordSightings(l *incarnation) {
	x := s.sightings[identity{l.key, l.uid}]
	switch {
	case x == nil:
	case l.logged:
		l.seen, l.floor = x.revisions, x.asLogged
	default:
		l.seen, l.floor = x.revisions, s.lastPastList(l.key, x.firstSeen-1)
	}
}

// lastPastList returns the newest past list at or below the revision that would have the key, or 0.
func (s *search) lastPastList(key string, revision uint64) (last uint64) {
	namespace, _ := change.SplitKey(key)
	for _, l := range s.pastLists {
		if l.revision <= revision && (l.namespace == "" || l.namespace == namespace) {
			last = max(last, l.revision)
		}
	}
	return last
}

// nextPastList returns the oldest past list after the revision that would have the key, or To if there is none.
func (s *search) nextPastList(key string, after uint64) uint64 {
	namespace, _ := change.SplitKey(key)
	next := s.To
	for _, l := range s.pastLists {
		if l.revision > after && (l.namespace == "" || l.namespace == namespace) {
			next = min(next, l.revision)
		}
	}
	return next
}

// recordDeleted records the incarnations that end in the gap: known objects that are missing, and objects that only past lists
// show.
func (s *search) recordDeleted() (deleted []*incarnation) {
	exists := map[identity]bool{}
	for _, o := range s.Changed {
		exists[identity{o.Key(), o.UID}] = true
	}
	for _, key := range s.Missing {
		k, _ := s.log.Get(key)
		if id := (identity{key, k.UID}); s.sightings[id] == nil {
			l := s.newIncarnation(key, k.UID)
			s.recordEnd(l, s.From, s.nextPastList(key, s.From))
			deleted = append(deleted, l)
		}
	}
	ids := slices.SortedFunc(maps.Keys(s.sightings), func(x, y identity) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.uid, y.uid))
	})
	for _, id := range ids {
		if !exists[id] {
			l, lastSeen := s.newIncarnation(id.key, id.uid), s.sightings[id].lastSeen
			s.recordEnd(l, lastSeen, s.nextPastList(id.key, lastSeen))
			deleted = append(deleted, l)
		}
	}
	return deleted
}

// walkBefore walks back, before sizes are read, the objects that changed and those whose deletion is known. It also walks
// transient objects back from where they were last seen, since the sizes show what is missing only when their creations are
// known.
func (s *search) walkBefore(ctx context.Context, changed, deleted []*incarnation) error {
	return s.each(ctx, append(changed, deleted...), func(ctx context.Context, l *incarnation) error {
		switch {
		case l.deleted != 0:
			return s.walkDated(ctx, l)
		case l.firstMissing == 0:
			return s.walkBack(ctx, l, l.lastSeen, s.To)
		case l.logged:
			return nil
		}
		err := s.walkBack(ctx, l, s.before(l, l.lastSeen), l.lastSeen)
		l.walked = l.lastSeen
		return err
	})
}

func (s *search) keep(body []byte) []byte {
	if s.witness || s.bytes.Add(int64(len(body))) > s.BodyBytes {
		return nil
	}
	return body
}

func (s *search) full() bool { return s.bytes.Load() > s.BodyBytes }
