// Package recovery finds out what a watch missed. It reads the collection as it was at single revisions of the gap, which the
// server allows until it compacts them. It returns the changes in the order in which they happened, with a reason if some of them
// can't be known any more. It emits and stores nothing: the reflector lists the collection before and emits the plan after.
//
// # An example
//
// The log is complete up to revision 10 and has the objects a, at version 5, and b, at version 7. The watch has expired. A list
// at revision 20 has a at version 18 and d at version 15, and lacks b. So a and d have changed. This is what happened, with the
// collection's size after each write:
//
//	revision     10   12        13        14        15        16        18
//	write             create c  update a  delete b  create d  delete c  update a
//	size          2   3         3         2         3         2         2
//
// Recover has four steps:
//
//  1. Walk the changed objects back (walk.go). a, read at revision 18, is itself at version 18. Read at 17 it is at version 13, and read
//     at 12 it is at version 5, which the log has. d, read at 15, is there, and read at 14 it is not: it was created at 15. A write to
//     etcd writes one key and takes a revision of its own. So the revisions 13, 15 and 18 are now explained: no other object changed
//     there.
//  2. Read the collection's size at each revision that is not explained (sizes.go). It rises from 2 to 3 at 12, so an object
//     was created there. It falls to 2 at 14, so one was deleted. It is 2 at 16 too, although d was created at 15, so one was
//     deleted at 16.
//  3. Find out which objects were deleted (deletions.go). b, read at 14, is not there, so it was deleted at 14 or before, and 14 is the
//     only such revision. The names at 15, before the deletion that is left, are a, c and d. c is in neither the log nor the list, so it
//     is a transient object (transient.go) that was deleted at 16. It is walked back from 15 to its creation at 12.
//  4. Check that the changes found account for every size that was read. Only then is the recovery complete.
//
// Three things save requests. If much changed in a collection, past lists are read before step 1 (past_lists.go). If deletions
// explain most of the revisions that are left, they are dated before step 1 too, by reads of the objects (dateDeletions). So few
// sizes are read. And streams of one etcd that recover together explain revisions for each other (coordinator.go), as do
// resources that no stream exports (witnesses.go). Streams of single namespaces share the sizes of the resource in all namespaces
// (whole.go).
//
// The plan is: create c, update a, delete b, create d, delete c, update a, each with its own revision (example_test.go).
package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// ErrNotPossible reports that the missed revisions can't be read. Only a comparison of a list with the log is left.
var ErrNotPossible = errors.New("the missed revisions can't be read")

// History reads a collection as it was at a revision. The error of a revision that can't be read any more satisfies IsLost.
type History interface {
	// Size returns how many objects the collection had.
	Size(ctx context.Context, revision uint64) (int64, error)
	// Object returns one object as it was.
	Object(ctx context.Context, key string, revision uint64) (o apiclient.Object, exists bool, err error)
	// Names calls visit for every object that the collection had, or one namespace of it, without bodies.
	Names(ctx context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error
	// Objects calls visit for every object that the collection, or one namespace of it, had at a revision. Objects that are newer
	// than newerThan have their bodies.
	Objects(ctx context.Context, namespace string, revision, newerThan uint64, visit func(apiclient.Object) error) error
}

// Gap is what a list shows of the revisions that a watch could not deliver.
type Gap struct {
	From, To uint64             // the log is complete up to From, and the list is of To
	Listed   int64              // objects in the list
	ListedIn map[string]int64   // objects in each namespace
	Changed  []apiclient.Object // objects that the log does not have, or has at an older version
	Missing  []string           // keys that the log has and the list does not have

	Kind       Kind
	Namespaced bool // the collection spans several namespaces

	Parallel    int          // concurrent requests
	Participant *Participant // the stream among the recoveries of the process, or nil if nothing is shared
	// bytes of bodies that the plan holds, by default 24 MiB. Further bodies are read again when they are emitted.
	BodyBytes int64

	// Witnesses returns those resources that may explain revisions, and that may be asked, the busiest first. nil: there are
	// none.
	Witnesses func(mayAsk func(s *change.Stream, leased bool) bool) []Witness

	// AllNamespaces is the history of the resource in all namespaces, without bodies, if the stream is of one namespace.
	AllNamespaces History

	// Report is called about once a second: so many of the gap's revisions are accounted for. nil: nothing is reported.
	Report func(done, total int)

	tuning *tuning // nil: the tuning of production
}

// Kind is what can happen to the objects of a collection. Its methods return what a recovery may conclude from it.
type Kind struct {
	// a revision may delete several objects: they expire together, as Events, or somebody deletes a prefix in etcd
	Several    bool
	Aggregated bool // another API server keeps the objects: a revision may write several, and sizes are estimates
	Selected   bool // a selector decides what belongs to the collection: objects leave it and come back
}

// deletesOne reports that a revision deletes one object of the collection, as far as is known.
func (k Kind) deletesOne() bool { return !k.Aggregated && !k.Several }

// isBounded reports that lists bound where an object was deleted. Otherwise several objects may change at a revision, or an
// object can leave the collection and come back under one uid.
func (k Kind) isBounded() bool { return k.deletesOne() && !k.Selected }

// expires reports that many objects may be deleted at a revision, in the order in which they were written.
func (k Kind) expires() bool { return k.Several && !k.Aggregated && !k.Selected }

// Recover finds every change of the collection after revision gap.From and up to gap.To. log has the objects as of gap.From.
// incompleteReason says what the plan lacks, and is empty if the plan is complete. After an error the plan is invalid. The
// error may be ErrNotPossible, or satisfy IsLost.
func Recover(ctx context.Context, history History, log *known.Set, gap Gap) (plan Plan, incompleteReason string, err error) {
	plan, incompleteReason, err = recoverOnce(ctx, history, log, gap)
	if errors.Is(err, errSeveralKeys) {
		if gap.Participant != nil {
			gap.Participant.Failed() // nobody waits for the second search
		}
		gap.Kind.Several, gap.Participant = true, nil
		plan, incompleteReason, err = recoverOnce(ctx, history, log, gap)
	}
	return plan, incompleteReason, err
}

// errSeveralKeys reports that one revision deleted several objects of a resource without expiring objects. This happens if
// somebody deletes a prefix in etcd. Then a change explains no revision, and the reports of other streams may be wrong. So the
// search begins again without both.
var errSeveralKeys = errors.New("a revision deleted several objects")

func recoverOnce(ctx context.Context, history History, log *known.Set, gap Gap) (plan Plan, incompleteReason string, err error) {
	if gap.Kind.Aggregated {
		gap.Participant = nil
	}
	if gap.tuning == nil {
		gap.tuning = &production
	}
	gap.Participant.locked(func(*Coordinator) { gap.Participant.from = gap.From })
	s := newSearch(history, log, gap)
	if err := s.run(ctx); err != nil {
		return nil, "", err
	}
	return s.plan(), s.reason, nil
}

func newSearch(history History, log *known.Set, gap Gap) *search {
	s := &search{Gap: gap, log: log, incarnations: map[string][]*incarnation{},
		explained: &explained{from: gap.From, to: gap.To, others: gap.Participant}, sizeAtFrom: -1,
		watched: map[identity]bool{}, sightings: map[identity]*sighting{}, changes: map[string]*revisions{"": {}},
		newcomers: map[string]float64{}, meter: newMeter(gap.tuning, gap.Listed)}
	s.history = &answered{history, s.answer, s.meter}
	s.BodyBytes = cmp.Or(s.BodyBytes, bodyBytes)
	return s
}

type search struct {
	Gap
	history   History
	log       *known.Set    // the objects that the log has at From
	oldest    atomic.Uint64 // the oldest revision that can be read: From, unless the server has compacted it
	explained *explained
	witness   bool // only revisions are looked for (witnesses.go)

	oldestMu     sync.Mutex // held while a new oldest revision is searched
	mu           sync.Mutex
	incarnations map[string][]*incarnation // by key
	ended        []*incarnation            // those whose end is in the gap, at a revision that is not known yet
	sizes        *sizes                    // nil before step 2, or if the sizes can't be read
	sizeAtFrom   int64                     // -1: not known
	contradicted bool                      // what was read contradicts itself
	reason       string                    // why the plan is not complete, or empty
	bytes        atomic.Int64              // bytes of the bodies that are held

	meter     *meter
	watched   map[identity]bool // objects for which a past list matters even if they are as in the log
	sightings map[identity]*sighting
	pastLists []pastList            // the lists that were read to their end
	changes   map[string]*revisions // that lists show, by namespace; empty: in all
	newcomers map[string]float64    // how many transient objects the past lists were first to show, by namespace

	read     revisions // whose sizes were read
	reported time.Time // the last report of the progress
}

// incarnation is an object's existence under one uid: from its creation, or from what the log has, to its deletion, or to
// the list.
type incarnation struct {
	key, uid  string
	logged    bool       // the log has it at From
	version   uint64     // in the log
	revisions []revision // newest first, all after From
	created   uint64     // the revision of its creation, if that is in the gap and was found
	deleted   uint64     // the revision of its deletion; 0: it exists at To
	truncated bool       // its older revisions were compacted
	undated   bool       // it was deleted, and the revision is not known
	// it was deleted at that revision, or earlier, at a compacted revision that also deleted another object
	doubtful     bool
	seen         []seenRevision // what past lists show of it, newest first
	floor        uint64         // past lists show that it did not change, or did not exist, up to this revision
	walked       uint64         // up to there all of its revisions were found
	lastSeen     uint64         // the last revision at which an object in ended exists,
	firstMissing uint64         // and not at this one
}

type revision struct {
	version uint64
	body    []byte // nil if it must be read again, since too many bodies are held
}

const bodyBytes = 24 << 20

func (s *search) run(ctx context.Context) error {
	if err := s.findOldest(ctx); err != nil {
		return err
	}
	if err := s.explainChanged(); err != nil {
		return err
	}
	if err := s.readPastLists(ctx); err != nil {
		return err
	}
	if err := s.letOthersWalk(ctx); err != nil {
		return err
	}
	changed := s.newChanged()
	deleted := s.recordDeleted()
	if err := s.dateDeletions(ctx); err != nil {
		return err
	}
	if err := s.walkBefore(ctx, changed, deleted); err != nil {
		return err
	}
	if err := s.askWitnesses(ctx); err != nil {
		return err
	}
	if err := s.dateByGrowth(ctx); err != nil {
		return err
	}
	if s.Kind.deletesOne() { // otherwise a revision has many deletions
		s.Participant.Gains(float64(len(s.ended)) / s.meter.now().size)
	}
	if err := s.readSizes(ctx); err != nil {
		return err
	}
	if err := s.findDeletions(ctx); err != nil {
		return err
	}
	s.checkSizes()
	if s.contradicted && (s.Kind.deletesOne() || s.Participant != nil) {
		return errSeveralKeys
	}
	s.tellDeletions()
	return ctx.Err()
}

func (s *search) findOldest(ctx context.Context) error {
	size, err := s.history.Size(ctx, s.From)
	unlogged := int64(0)
	if err == nil && size != int64(s.log.Len()) {
		unlogged, err = s.countUnlogged(ctx)
	}
	switch {
	case IsLost(err):
		unreadable := err
		var oldest uint64
		oldest, err = s.oldestFrom(ctx, s.From+1)
		s.oldest.Store(oldest)
		s.incomplete(lostBecause(unreadable, fmt.Sprintf("before revision %d", oldest)))
	case errors.Is(err, errNoSize):
		s.oldest.Store(s.From)
		err = nil
	case err == nil && size != int64(s.log.Len())+unlogged:
		err = fmt.Errorf("%w: the log has %d objects, the server had %d at its position: an earlier comparison was interrupted",
			ErrNotPossible, s.log.Len(), size)
	default:
		s.oldest.Store(s.From)
		s.sizeAtFrom = size
	}
	return err
}

// countUnlogged counts the objects that existed at the gap's start and whose names no record takes: the log has none of them.
func (s *search) countUnlogged(ctx context.Context) (n int64, err error) {
	err = s.history.Names(ctx, "", s.From, func(o apiclient.Object) error {
		if apiclient.IsUnloggable(&o, o.Check()) {
			n++
		}
		return nil
	})
	return n, err
}

func (s *search) oldestFrom(ctx context.Context, lo uint64) (uint64, error) {
	for hi := s.To; lo < hi; {
		middle := lo + (hi-lo)/2
		_, err := s.history.Size(ctx, middle)
		switch {
		case IsLost(err):
			lo = middle + 1
		case err != nil && !errors.Is(err, errNoSize):
			return 0, err
		default:
			hi = middle
		}
	}
	return lo, nil
}

func (s *search) incomplete(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == "" {
		s.reason = reason
	}
}

// contradiction records that what was read can't all be true, if nothing was compacted and a revision writes one key.
func (s *search) contradiction(reason string) {
	s.mu.Lock()
	s.contradicted = s.contradicted || s.reason == ""
	s.mu.Unlock()
	s.incomplete(reason)
}

func lostBecause(err error, what string) string {
	if errors.Is(err, errUnreadable) {
		return "the server can't read its history " + what + ": " + apiclient.Reason(err)
	}
	return "the server has compacted its history " + what
}

// lose records that a revision, and every one before it, can't be read any more. The server has compacted it since the search
// began, or fails to read it. If that is true of the complete gap, the recovery is not possible.
func (s *search) lose(ctx context.Context, revision uint64, cause error) error {
	s.oldestMu.Lock()
	defer s.oldestMu.Unlock()
	if revision < s.oldest.Load() {
		return nil // another goroutine has recorded it
	}
	if revision >= s.To {
		all := fmt.Sprintf("up to revision %d, which is all of the gap", revision)
		return fmt.Errorf("%w: %s", ErrNotPossible, lostBecause(cause, all))
	}
	s.incomplete(lostBecause(cause, fmt.Sprintf("up to revision %d or later", revision)))
	oldest, err := s.oldestFrom(ctx, revision+1)
	if err == nil {
		s.oldest.Store(oldest)
	}
	return err
}

// each runs f for all incarnations, several of them concurrently. Incarnations under one key run one after another, since the
// begin or end of one bounds the others.
func (s *search) each(ctx context.Context, all []*incarnation, f func(context.Context, *incarnation) error) error {
	byKey, keys := map[string][]*incarnation{}, []string(nil)
	for _, l := range all {
		if byKey[l.key] == nil {
			keys = append(keys, l.key)
		}
		byKey[l.key] = append(byKey[l.key], l)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.Parallel)
	for _, key := range keys {
		group.Go(func() error {
			for _, l := range byKey[key] {
				if err := f(ctx, l); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// newIncarnation adds an incarnation, with what the log has of it.
func (s *search) newIncarnation(key, uid string) *incarnation {
	l := &incarnation{key: key, uid: uid}
	if k, ok := s.log.Get(key); ok && k.UID == uid {
		l.logged = true
		l.version, _ = k.Version.Revision()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordSightings(l)
	s.incarnations[key] = append(s.incarnations[key], l)
	return l
}

// recordEnd records that the incarnation exists at one revision and is missing at a later one.
func (s *search) recordEnd(l *incarnation, lastSeen, firstMissing uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.lastSeen, l.firstMissing = lastSeen, firstMissing
	s.ended = append(s.ended, l)
}

// explain records that an object was written at the revision, for other streams too. A revision that writes an object writes no
// other object, even if objects expire.
func (s *search) explain(revision uint64) {
	if !s.Kind.Aggregated {
		s.explained.own.add(revision)
	}
	s.wrote(revision)
}

// explainDeletion records a deletion at a revision that may still turn out to be wrong. This search would then end, but other
// searches would continue with the wrong revision.
func (s *search) explainDeletion(revision uint64) {
	if s.Kind.deletesOne() {
		s.explained.own.add(revision)
	}
}

// wrote tells other streams that the collection changed at the revision, whichever object it was.
func (s *search) wrote(revision uint64) {
	if s.Participant != nil {
		s.Participant.wrote(revision)
	}
}

// tellDeletions tells other streams the deletions that the sizes confirm.
func (s *search) tellDeletions() {
	for _, all := range s.incarnations {
		for _, l := range all {
			if l.deleted != 0 {
				s.wrote(l.deleted)
			}
		}
	}
}

// answer records that the API server has answered, and reports the progress from time to time.
func (s *search) answer() {
	s.Participant.Answered()
	s.mu.Lock()
	due := s.Report != nil && time.Since(s.reported) >= time.Second
	if due {
		s.reported = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.Report(s.explained.accountedFor(&s.read), int(s.To-s.From))
	}
}

// answered is a History that reports its answers, and measures what they cost.
type answered struct {
	History
	answer func()
	meter  *meter
}

func (h *answered) Size(ctx context.Context, revision uint64) (n int64, err error) {
	err = h.single(&h.meter.costs.size, 0.1, func() error {
		n, err = h.History.Size(ctx, revision)
		return err
	})
	return n, err
}

func (h *answered) Object(ctx context.Context, key string, revision uint64) (o apiclient.Object, exists bool, err error) {
	err = h.single(&h.meter.costs.read, 0.02, func() error {
		o, exists, err = h.History.Object(ctx, key, revision)
		return err
	})
	return o, exists, err
}

// single makes a request, and moves its cost by a part of what differs.
func (h *answered) single(cost *float64, part float64, read func() error) error {
	defer h.answer()
	from := h.meter.begin()
	err := read()
	if new := h.meter.end(from); err == nil {
		h.meter.learn(cost, new, part)
	}
	return err
}

func (h *answered) Objects(ctx context.Context, namespace string, revision, newerThan uint64,
	visit func(apiclient.Object) error) error {
	return h.list(&h.meter.costs.bodied, visit, func(visit func(apiclient.Object) error) error {
		return h.History.Objects(ctx, namespace, revision, newerThan, visit)
	})
}

func (h *answered) Names(ctx context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error {
	return h.list(&h.meter.costs.named, visit, func(visit func(apiclient.Object) error) error {
		return h.History.Names(ctx, namespace, revision, visit)
	})
}

func (h *answered) list(each *float64, visit func(apiclient.Object) error,
	read func(visit func(apiclient.Object) error) error) error {
	defer h.answer()
	from, n := h.meter.begin(), 0
	err := read(func(o apiclient.Object) error { n++; return visit(o) })
	if cost := h.meter.end(from); err == nil {
		h.meter.learnList(each, cost, n)
	}
	return err
}
