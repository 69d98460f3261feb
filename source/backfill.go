package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// After a 410 the watch can't be resumed, but the server can still be asked how things stood at each revision of
// the gap, until it compacts. A backfill finds every life of every object inside the gap (from, to]:
//
//  1. Objects that live at to under another version than the inventory's are walked back (walk.go), read by read at
//     the newest revision before the last one found, to their creation or to the version that the log already has.
//  2. The size of the collection is asked for at every revision that no change found so far explains (census.go).
//     Where it falls, something died, and where it rises, something was born: nothing else changes a size.
//  3. Every death is given its object, an inventory's or one that came and went unseen, and those are walked back too
//     (deaths.go).
//
// The gap is complete when the size is accounted for at every revision of it. No shortcut is a guess: see
// explained.go for revisions that are not asked about, and deaths.go for who died.
type backfill struct {
	history   *history
	claims    *Claims
	known     *known.Set
	from, to  uint64
	listed    int64  // objects in the list at to
	floor     uint64 // the oldest revision that can still be read: from, unless the server has compacted it
	parallel  int
	foreign   bool // kept by an aggregated server (foreign.go)
	explained *explained

	floors sync.Mutex // one at a time looks for a new floor
	mu     sync.Mutex
	lives  map[string][]*life // by key
	ended  []*life            // lives that end somewhere in the gap: where, is not known yet
	census *census            // nil before 2, or when the server does not count
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
	alive     uint64     // of an ended life: it lives at this revision,
	absent    uint64     // and not at this one
}

type revision struct {
	version uint64
	body    []byte // nil when it is to be read again: too many are held
}

// bodiesKept bounds the bodies that a backfill holds; beyond it they are read again when they are sent.
const bodiesKept = 24 << 20

func (b *backfill) run(ctx context.Context, changed []apiclient.Object, gone []string) error {
	if err := b.findFloor(ctx); err != nil {
		return err
	}
	if err := b.walkLiving(ctx, changed); err != nil {
		return err
	}
	for _, key := range gone {
		k, _ := b.known.Get(key)
		b.end(b.lifeOf(key, k.UID), b.from, b.to)
	}
	if err := b.takeCensus(ctx); err != nil {
		return err
	}
	if err := b.buryAll(ctx); err != nil {
		return err
	}
	b.account()
	return ctx.Err()
}

// findFloor finds the oldest revision that the server still has, from on.
func (b *backfill) findFloor(ctx context.Context) error {
	size, err := b.history.size(ctx, "", b.from)
	switch {
	case apiclient.IsGone(err):
		b.floor, err = b.oldest(ctx, b.from+1)
		b.incomplete(fmt.Sprintf("the server has compacted its history before revision %d", b.floor))
	case errors.Is(err, errNoCount):
		b.floor, err = b.from, nil
	case err == nil && size != int64(b.known.Len()):
		err = fmt.Errorf("%w: the log has %d objects, the server had %d at its position: an earlier comparison was broken off", errNotRecoverable, b.known.Len(), size)
	default:
		b.floor = b.from
	}
	return err
}

// oldest is the oldest revision from lo on that the server still has.
func (b *backfill) oldest(ctx context.Context, lo uint64) (uint64, error) {
	for hi := b.to; lo < hi; {
		at := lo + (hi-lo)/2
		_, err := b.history.size(ctx, "", at)
		switch {
		case apiclient.IsGone(err):
			lo = at + 1
		case err != nil && !errors.Is(err, errNoCount):
			return 0, err
		default:
			hi = at
		}
	}
	return lo, nil
}

func (b *backfill) incomplete(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == "" {
		b.reason = reason
	}
}

// compacted notes that the server compacted while we were reading: what lies at or below revision is lost. If that
// is all of the gap, only a new list can help.
func (b *backfill) compacted(ctx context.Context, revision uint64) error {
	b.floors.Lock()
	defer b.floors.Unlock()
	if revision < b.lowest() {
		return nil // another reader has found out
	}
	if revision >= b.to {
		return fmt.Errorf("%w: the server compacted all of it while it was read", errNotRecoverable)
	}
	b.incomplete(fmt.Sprintf("the server compacted its history up to revision %d or later while it was read", revision))
	oldest, err := b.oldest(ctx, revision+1)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.floor = oldest
	return nil
}

func (b *backfill) lowest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.floor
}

// each runs f for all lives side by side.
func (b *backfill) each(ctx context.Context, lives []*life, f func(context.Context, *life) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.parallel)
	for _, l := range lives {
		group.Go(func() error { return f(ctx, l) })
	}
	return group.Wait()
}

// lifeOf adds a life; what the log has of it is looked up.
func (b *backfill) lifeOf(key, uid string) *life {
	l := &life{key: key, uid: uid}
	if k, ok := b.known.Get(key); ok && k.UID == uid {
		l.logged = true
		l.version, _ = strconv.ParseUint(k.Version, 10, 64)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lives[key] = append(b.lives[key], l)
	return l
}

// end notes that the life ends after the revision alive, and at absent at the latest.
func (b *backfill) end(l *life, alive, absent uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.alive, l.absent = alive, absent
	b.ended = append(b.ended, l)
}

// explain notes that a change of this collection at the revision is known.
func (b *backfill) explain(revision uint64) {
	b.explained.add(revision)
	b.claims.add(revision, b.history.stream)
}
