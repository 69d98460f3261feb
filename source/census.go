package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"kubecdc/source/apiclient"
)

// census holds the collection's size at every revision that was not explained when it was taken, and what follows
// from that: between two such revisions all changes are known, so what else the size does it does at the later one.
type census struct {
	mu     sync.Mutex
	sizes  map[uint64]int64
	asked  []uint64         // the revisions of sizes, in order
	deaths map[uint64]int64 // how many objects died at a revision, that are not found yet
	births map[uint64]int64
	order  []uint64 // the revisions of deaths, in order
}

// birth reports whether something that is not found yet was born at the revision. A revision writes one key: so it
// is whatever changed there. It is found now.
func (c *census) birth(revision uint64) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.births[revision] == 0 {
		return false
	}
	c.births[revision]--
	return true
}

// death notes that one of the dead of the revision is found.
func (c *census) death(revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaths[revision] > 0 {
		c.deaths[revision]--
	}
}

// open gives the revisions in (lo, hi] at which someone died that is not found yet.
func (c *census) open(lo, hi uint64) (revisions []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearch(c.order, lo+1)
	for ; i < len(c.order) && c.order[i] <= hi; i++ {
		if c.deaths[c.order[i]] > 0 {
			revisions = append(revisions, c.order[i])
		}
	}
	return revisions
}

// takeCensus asks for the sizes. Without them (a large collection, seen through selectors) lives that came and went
// can't be found, and the gap is not complete.
func (b *backfill) takeCensus(ctx context.Context) error {
	c := &census{sizes: map[uint64]int64{b.to: b.listed}, deaths: map[uint64]int64{}, births: map[uint64]int64{}}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(b.parallel)
	for r := b.explained.highest(b.to - 1); r > b.lowest() && inner.Err() == nil; r = b.explained.highest(r - 1) {
		group.Go(func() error { return b.count(inner, c, r) })
	}
	group.Go(func() error { return b.count(inner, c, b.lowest()) })
	err := group.Wait()
	if errors.Is(err, errNoCount) {
		b.incomplete(err.Error())
		return nil
	}
	if err == nil && c.sizes[b.lowest()] == 0 {
		err = b.count(ctx, c, b.lowest()) // compacted meanwhile
	}
	if err != nil {
		return err
	}
	b.conclude(c)
	b.census = c
	return nil
}

func (b *backfill) count(ctx context.Context, c *census, r uint64) error {
	n, err := b.history.size(ctx, "", r)
	if apiclient.IsGone(err) {
		return b.compacted(ctx, r)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[r] = n
	return nil
}

// conclude finds the deaths and births that the lives found so far do not explain.
func (b *backfill) conclude(c *census) {
	for r := range c.sizes {
		if r >= b.floor {
			c.asked = append(c.asked, r)
		}
	}
	slices.Sort(c.asked)
	steps, _ := b.steps()
	for i, r := range c.asked {
		if i == 0 {
			continue
		}
		before := c.asked[i-1]
		off := c.sizes[r] - c.sizes[before]
		for len(steps) > 0 && steps[0].at <= r {
			if steps[0].at > before {
				off -= steps[0].delta
			}
			steps = steps[1:]
		}
		if off > 0 {
			c.births[r] = off
		} else if off < 0 {
			c.deaths[r] = -off
			c.order = append(c.order, r)
		}
	}
}

// step is what a life does to the size.
type step struct {
	at    uint64
	delta int64
}

// steps are the births and deaths that are known, in order, and how many more (or less) lived at the floor than at
// from.
func (b *backfill) steps() (steps []step, atFloor int64) {
	for _, lives := range b.lives {
		for _, l := range lives {
			switch {
			case l.logged && l.lost:
				atFloor--
			case l.logged || l.lost:
			case l.born == 0 || l.cut:
				atFloor++ // born somewhere below the floor
			default:
				steps = append(steps, step{l.born, 1})
			}
			if l.died != 0 {
				steps = append(steps, step{l.died, -1})
			}
		}
	}
	slices.SortFunc(steps, func(x, y step) int { return cmp.Compare(x.at, y.at) })
	return steps, atFloor
}

// account compares every size with what the lives found add up to. Only if all agree nothing is missing.
func (b *backfill) account() {
	if b.census == nil {
		return
	}
	steps, atFloor := b.steps()
	expected := int64(b.known.Len()) + atFloor
	for _, r := range b.census.asked {
		for len(steps) > 0 && steps[0].at <= r {
			expected += steps[0].delta
			steps = steps[1:]
		}
		if size := b.census.sizes[r]; size != expected && r >= b.floor {
			b.incomplete(fmt.Sprintf("at revision %d the collection had %d objects, and %d are known", r, size, expected))
			return
		}
	}
}
