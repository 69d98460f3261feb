package source

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"kubecdc/source/apiclient"
)

// Who died? Where the whole collection is one page, its names just before each death tell: between two deaths
// nobody dies, so who is there before a death and not before the next one died at it. Where it is larger, the death
// of an object that is known is bisected among the deaths that are still open, and an unknown one is looked for
// among the names at the revision where most unknown ones live at once, in the namespace that has too many.

// onePage is how many names are read at once.
const onePage = 2000

// buryAll finds the end of every life that ends in the gap, and everything else of those lives.
func (b *backfill) buryAll(ctx context.Context) error {
	if b.census != nil && b.small() {
		if err := b.rollCalls(ctx); err != nil {
			return err
		}
	}
	for last := -1; ; {
		for len(b.ended) > 0 {
			ended := b.ended
			b.ended = nil
			if err := b.each(ctx, ended, b.bury); err != nil {
				return err
			}
		}
		if b.census == nil {
			return nil
		}
		open := len(b.census.open(b.lowest(), b.to))
		if open == last { // every look for strangers must explain a death, or it would go on for ever
			b.incomplete(fmt.Sprintf("%d deletions belong to nobody whom the server can name", open))
			return nil
		}
		last = open
		found, err := b.lookForStrangers(ctx)
		if err != nil || !found {
			return err
		}
	}
}

func (b *backfill) small() bool {
	for _, n := range b.census.sizes {
		if n > onePage {
			return false
		}
	}
	return true
}

type identity struct{ key, uid string }

// rollCalls reads the names before each death, and gives each death its object. Newest first, a few at a time.
func (b *backfill) rollCalls(ctx context.Context) error {
	deaths := slices.DeleteFunc(b.census.open(b.lowest(), b.to), func(r uint64) bool { return r-1 < b.lowest() })
	slices.Reverse(deaths)
	var after map[identity]bool // who lives just before the next death; nil: the list
	for len(deaths) > 0 {
		batch := deaths[:min(len(deaths), b.parallel)]
		deaths = deaths[len(batch):]
		calls := make([]map[identity]bool, len(batch))
		group, inner := errgroup.WithContext(ctx)
		for i, r := range batch {
			group.Go(func() (err error) { calls[i], err = b.rollCall(inner, r-1); return err })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		var dead []*life
		for i, r := range batch {
			if calls[i] != nil {
				dead = append(dead, b.missing(calls[i], after, r)...)
			}
			after = calls[i]
			if after == nil {
				return b.each(ctx, dead, b.walkDead) // compacted: the older ones are lost, and bury says so
			}
		}
		if err := b.each(ctx, dead, b.walkDead); err != nil {
			return err
		}
	}
	return nil
}

func (b *backfill) rollCall(ctx context.Context, at uint64) (map[identity]bool, error) {
	names := map[identity]bool{}
	err := b.history.namesAt(ctx, "", at, func(o apiclient.Object) error {
		names[identity{o.Key(), o.UID}] = true
		return nil
	})
	if apiclient.IsGone(err) {
		return nil, b.compacted(ctx, at)
	}
	return names, err
}

// missing gives the lives that end at the death.
func (b *backfill) missing(before, after map[identity]bool, death uint64) (dead []*life) {
	for id := range before {
		if after != nil && after[id] || after == nil && b.livesAtEnd(id) {
			continue
		}
		l := b.endedLife(id, death)
		l.died = death
		b.census.death(death)
		b.explain(death)
		dead = append(dead, l)
	}
	return dead
}

func (b *backfill) livesAtEnd(id identity) bool {
	lives := b.lives[id.key]
	for _, l := range lives {
		if l.uid == id.uid && l.absent == 0 && l.died == 0 {
			return true
		}
	}
	k, ok := b.known.Get(id.key)
	return len(lives) == 0 && ok && k.UID == id.uid
}

// endedLife is the life that is known to end here, or a new one.
func (b *backfill) endedLife(id identity, death uint64) *life {
	for i, l := range b.ended {
		if l.key == id.key && l.uid == id.uid && l.alive < death && death <= l.absent {
			b.ended = slices.Delete(b.ended, i, i+1)
			return l
		}
	}
	return b.stranger(id.key, id.uid)
}

// stranger adds a life that came and went; whoever it is, the log does not have it alive.
func (b *backfill) stranger(key, uid string) *life {
	l := b.lifeOf(key, uid)
	for _, other := range b.lives[key] {
		if other != l && other.logged && other.uid == uid {
			l.logged, l.version = false, 0
		}
	}
	return l
}

func (b *backfill) walkDead(ctx context.Context, l *life) error {
	return b.walk(ctx, l, b.explained.highest(l.died-1), l.died-1)
}

// bury finds the deletion of an ended life, and then walks it back.
func (b *backfill) bury(ctx context.Context, l *life) error {
	for {
		lo := l.alive
		if floor := b.lowest(); lo < floor {
			exists, err := false, error(nil)
			if floor < l.absent {
				exists, err = b.exists(ctx, l, floor)
			}
			if apiclient.IsGone(err) {
				continue
			}
			if err != nil {
				return err
			}
			if !exists {
				l.lost = true
				return nil
			}
			lo = floor
		}
		died, err := b.findDeath(ctx, l, lo, l.absent)
		if apiclient.IsGone(err) {
			continue // compacted meanwhile: the floor has risen
		}
		if err != nil {
			return err
		}
		l.died = died
		b.explain(died)
		if b.census != nil {
			b.census.death(died)
		}
		return b.walkDead(ctx, l)
	}
}

// findDeath finds the first revision in (lo, hi] at which the object does not exist: among the open deaths, or, where
// sizes are not known, among all revisions.
func (b *backfill) findDeath(ctx context.Context, l *life, lo, hi uint64) (uint64, error) {
	if b.census != nil {
		open := b.census.open(lo, hi)
		for len(open) > 1 {
			mid := (len(open) - 1) / 2
			exists, err := b.exists(ctx, l, open[mid])
			if err != nil {
				return 0, err
			}
			if exists {
				open = open[mid+1:]
			} else {
				open = open[:mid+1]
			}
		}
		if len(open) == 1 {
			return open[0], nil
		}
		b.incomplete(fmt.Sprintf("%s ended between revisions %d and %d, and the collection's size does not tell where", l.key, lo, hi))
	}
	return b.bisect(ctx, l, lo, hi)
}

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
	if apiclient.IsGone(err) {
		if hopeless := b.compacted(ctx, at); hopeless != nil {
			return false, hopeless
		}
	}
	return exists && o.UID == l.uid, err
}
