package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
)

// After a 410 the watch can't be resumed, but the server can still be asked how things stood at each revision of
// the gap, until it compacts. A backfill finds every life of every object inside the gap (from, to]:
//
//  1. Objects that live at to under another version than the inventory's: walked back, read by read at one revision
//     before the last one found, to their creation or to the version that the log already has.
//  2. Objects that the inventory has and the list has not: the revision of their deletion is bisected (an object of
//     one uid exists up to it and never after), then they are walked back too.
//  3. Objects that came and went unseen: the collection's size at a revision that no change found so far explains is
//     asked for. Where it is not what the lives found so far add up to, someone unknown lives there: the names at
//     that revision tell who, and 2 applies. Each such step adds a life, so it ends.
//
// The gap is complete when the size is accounted for at every revision of it. Two shortcuts, both exact: a
// revision at which a known change of this collection happened, or a change of another one (Claims), is not probed,
// because a revision writes one key; and what such a revision does to the size is known from its change. (Several
// Events may expire at one revision: the size at the next revision that is probed, or at the end, is then off, and
// the names are read there.)
type backfill struct {
	history  *history
	claims   *Claims
	index    *index
	from, to uint64
	floor    uint64 // the oldest revision that can still be read: from, unless the server has compacted it
	parallel int

	mu     sync.Mutex
	lives  map[string][]*life // by key
	known  map[uint64]bool    // revisions of changes found
	reason string             // why it is not complete; empty while it may be
	bytes  int64              // of bodies kept
}

// life is one object of one uid, from its creation or from what the log already has, to its deletion or the list.
type life struct {
	key, uid  string
	logged    bool       // alive at from, and in the log
	version   uint64     // what the log has of it
	revisions []revision // newest first, all after from
	born      uint64     // the revision of its creation, when inside the gap and found
	died      uint64     // the revision of its deletion; 0: alive at to
	cut       bool       // older revisions were compacted away
	lost      bool       // its end is known, its revision is not
}

type revision struct {
	version uint64
	body    []byte // nil when it is to be read again: too many are held
}

// bodiesKept bounds the bodies that a backfill holds; beyond it they are read again when they are sent.
const bodiesKept = 24 << 20

func (b *backfill) run(ctx context.Context, changed []object, gone []string) error {
	if err := b.findFloor(ctx); err != nil {
		return err
	}
	if err := b.walkKnown(ctx, changed, gone); err != nil {
		return err
	}
	if err := b.close(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// findFloor finds the oldest revision that the server still has, from on.
func (b *backfill) findFloor(ctx context.Context) error {
	lo, hi := b.from, b.to
	for lo < hi {
		_, err := b.history.size(ctx, "", lo)
		if err == nil || errors.Is(err, errNoCount) {
			break
		}
		if !isGone(err) {
			return err
		}
		b.incomplete(fmt.Sprintf("the server has compacted its history up to revision %d or later", lo))
		for mid := lo + (hi-lo)/2; ; mid = lo + (hi-lo)/2 {
			if _, err = b.history.size(ctx, "", mid); isGone(err) {
				lo = mid + 1
			} else if err != nil && !errors.Is(err, errNoCount) {
				return err
			} else {
				hi = mid
			}
			if lo >= hi {
				break
			}
		}
	}
	b.floor = lo
	return nil
}

func (b *backfill) incomplete(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == "" {
		b.reason = reason
	}
}

// compacted notes that the server compacted while we were reading: what lies at or below revision is lost.
func (b *backfill) compacted(revision uint64) {
	b.incomplete(fmt.Sprintf("the server compacted its history up to revision %d or later while it was read", revision))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.floor = max(b.floor, revision+1)
}

func (b *backfill) lowest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.floor
}

// walkKnown does 1 and 2.
func (b *backfill) walkKnown(ctx context.Context, changed []object, gone []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.parallel)
	for i := range changed {
		o := &changed[i]
		l := b.lifeOf(o.key(), o.uid)
		at, err := strconv.ParseUint(o.version, 10, 64)
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		group.Go(func() error { return b.walk(ctx, l, at) })
	}
	for _, key := range gone {
		k, _ := b.index.get(key)
		l := b.lifeOf(key, k.uid)
		group.Go(func() error { return b.bury(ctx, l, b.from, b.to) })
	}
	return group.Wait()
}

// lifeOf adds a life; what the log has of it is looked up.
func (b *backfill) lifeOf(key, uid string) *life {
	l := &life{key: key, uid: uid}
	if k, ok := b.index.get(key); ok && k.uid == uid {
		l.logged = true
		l.version, _ = strconv.ParseUint(k.version, 10, 64)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lives[key] = append(b.lives[key], l)
	return l
}

// walk finds the revisions of a life from the newest at or before the revision back.
func (b *backfill) walk(ctx context.Context, l *life, at uint64) error {
	for at > b.from {
		if at < b.lowest() {
			l.cut = true
			return nil
		}
		o, exists, err := b.history.objectAt(ctx, l.key, at)
		if isGone(err) {
			b.compacted(at)
			continue
		}
		if err != nil {
			return err
		}
		if !exists || o.uid != l.uid {
			return b.bear(ctx, l, at)
		}
		version, err := strconv.ParseUint(o.version, 10, 64)
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		if version <= b.from || l.logged && version <= l.version {
			return nil
		}
		b.found(l, version, o.raw)
		b.explained(version)
		at = version - 1
	}
	if !l.logged {
		return b.bear(ctx, l, at)
	}
	return nil
}

func (b *backfill) found(l *life, version uint64, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes += int64(len(body)); b.bytes > bodiesKept {
		body = nil
	}
	l.revisions = append(l.revisions, revision{version, body})
}

// bear notes that the oldest revision found is the creation: the object did not exist at the revision absent. If the
// log has it alive before that, it left the collection and came back (a selector does that): two lives.
func (b *backfill) bear(ctx context.Context, l *life, absent uint64) error {
	if n := len(l.revisions); n > 0 {
		l.born = l.revisions[n-1].version
	}
	if !l.logged {
		return nil
	}
	earlier := b.lifeOf(l.key, l.uid)
	l.logged, l.version = false, 0
	return b.bury(ctx, earlier, b.from, absent)
}

// bury finds the deletion of an object that exists at the revision alive and not at absent, and then walks it back.
func (b *backfill) bury(ctx context.Context, l *life, alive, absent uint64) error {
	for {
		lo, hi := alive, absent
		if floor := b.lowest(); lo < floor {
			exists, err := b.exists(ctx, l, floor)
			if err == nil && !exists {
				l.lost = true
				return nil
			}
			if err == nil {
				lo = floor
			} else if isGone(err) {
				continue
			} else {
				return err
			}
		}
		died, err := b.bisect(ctx, l, lo, hi)
		if isGone(err) {
			continue // compacted meanwhile: the floor has risen
		}
		if err != nil {
			return err
		}
		l.died = died
		b.explained(died)
		return b.walk(ctx, l, died-1)
	}
}

// explained notes that a change at the revision is known.
func (b *backfill) explained(revision uint64) {
	b.mu.Lock()
	b.known[revision] = true
	b.mu.Unlock()
	b.claims.add(revision, b.history.stream.ID())
}

// bisect finds the first revision in (lo, hi] at which the object does not exist.
func (b *backfill) bisect(ctx context.Context, l *life, lo, hi uint64) (uint64, error) {
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		exists, err := b.exists(ctx, l, mid)
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

func (b *backfill) exists(ctx context.Context, l *life, at uint64) (bool, error) {
	o, exists, err := b.history.objectAt(ctx, l.key, at)
	if isGone(err) {
		b.compacted(at)
	}
	return exists && o.uid == l.uid, err
}

// close does 3: it accounts for the collection's size at every revision that can still be read.
func (b *backfill) close(ctx context.Context) error {
	sizes, err := b.probe(ctx)
	if errors.Is(err, errNoCount) {
		b.incomplete(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for {
		at, off := b.firstOff(sizes)
		if off == 0 {
			return nil
		}
		found, err := b.explain(ctx, at)
		if isGone(err) {
			b.compacted(at)
			continue
		}
		if err != nil {
			return err
		}
		if !found {
			b.incomplete(fmt.Sprintf("at revision %d the collection's size is off by %d and its names do not tell why", at, off))
			return nil
		}
	}
}

// probe asks for the size at every revision that is not accounted for, at both ends, and at the floor.
func (b *backfill) probe(ctx context.Context) (map[uint64]int64, error) {
	var mu sync.Mutex
	sizes := map[uint64]int64{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.parallel)
	for r := b.lowest(); r <= b.to; r++ {
		ends := r == b.to || r == b.lowest()
		if !ends && (b.known[r] || b.claims.byOther(r, b.history.stream.ID())) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			n, err := b.history.size(ctx, "", r)
			if isGone(err) {
				b.compacted(r)
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			sizes[r] = n
			return nil
		})
	}
	return sizes, group.Wait()
}

// firstOff compares the sizes with what the lives found so far add up to, and gives the first revision where they
// differ, and by how much.
func (b *backfill) firstOff(sizes map[uint64]int64) (at uint64, off int64) {
	revisions := make([]uint64, 0, len(sizes))
	for r := range sizes {
		if r >= b.floor {
			revisions = append(revisions, r)
		}
	}
	slices.Sort(revisions)
	type step struct {
		at    uint64
		delta int64
	}
	var steps []step
	expected := int64(b.index.len()) // what lived at from
	for _, lives := range b.lives {
		for _, l := range lives {
			if l.lost {
				expected--
			}
			if !l.logged && l.cut || !l.logged && l.born == 0 {
				expected++ // born somewhere below the floor
			} else if !l.logged {
				steps = append(steps, step{l.born, 1})
			}
			if l.died != 0 {
				steps = append(steps, step{l.died, -1})
			}
		}
	}
	slices.SortFunc(steps, func(x, y step) int { return int(int64(x.at) - int64(y.at)) })
	i := 0
	for _, r := range revisions {
		for i < len(steps) && steps[i].at <= r {
			expected += steps[i].delta
			i++
		}
		if sizes[r] != expected {
			return r, sizes[r] - expected
		}
	}
	return 0, 0
}

// explain reads who lived at the revision, and adds the lives that are not known yet.
func (b *backfill) explain(ctx context.Context, at uint64) (found bool, err error) {
	namespace, err := b.suspect(ctx, at)
	if err != nil {
		return false, err
	}
	var strangers []*life
	err = b.history.namesAt(ctx, namespace, at, func(o object) error {
		if !b.livesAt(o.key(), o.uid, at) {
			strangers = append(strangers, &life{key: o.key(), uid: o.uid})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.parallel)
	for _, stranger := range strangers {
		l := b.lifeOf(stranger.key, stranger.uid)
		group.Go(func() error { return b.bury(ctx, l, at, b.to) })
	}
	return len(strangers) > 0, group.Wait()
}

// livesAt reports whether the object is known to be alive at the revision.
func (b *backfill) livesAt(key, uid string, at uint64) bool {
	known := false
	for _, l := range b.lives[key] {
		if l.uid != uid {
			continue
		}
		if l.born <= at && (l.died == 0 || at < l.died) && !l.lost {
			return true
		}
		known = true
	}
	k, ok := b.index.get(key)
	return !known && ok && k.uid == uid
}

// suspect narrows the search to one namespace of a large collection: the one whose size at the revision is not what
// the lives found so far add up to. An empty answer means: look everywhere.
func (b *backfill) suspect(ctx context.Context, at uint64) (string, error) {
	if !b.history.stream.Resource.Namespaced || b.history.stream.Namespace != "" || b.index.len() <= 500 {
		return "", nil
	}
	expected := map[string]int64{}
	for key := range b.index.entries {
		if len(b.lives[key]) == 0 {
			namespace, _ := splitKey(key)
			expected[namespace]++
		}
	}
	for key, lives := range b.lives {
		namespace, _ := splitKey(key)
		alive := int64(0)
		for _, l := range lives {
			if b.livesAt(key, l.uid, at) {
				alive = 1 // one at a time under a key
			}
		}
		expected[namespace] += alive
	}
	for namespace, n := range expected {
		size, err := b.history.size(ctx, namespace, at)
		if err != nil {
			return "", err
		}
		if size > n {
			return namespace, nil
		}
	}
	return "", nil
}
