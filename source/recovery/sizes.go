package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// sizes holds the collection's size at every revision that was not explained when the sizes were read. Between two of these
// revisions all changes are known, so any unexplained change of size happened at the later one.
type sizes struct {
	mu        sync.Mutex
	counts    map[uint64]int64
	asked     []uint64         // the revisions of sizes, in order
	deletions map[uint64]int64 // how many objects were deleted at a revision and are not found yet
	creations map[uint64]int64
	order     []uint64 // the revisions of deletions, in order
}

// creation reports whether an object that is not found yet was created at the revision, and counts it as found. A revision
// writes one key, so the object is the one that changed there.
func (c *sizes) creation(revision uint64) bool { return c != nil && c.found(c.creations, revision) }

func (c *sizes) deletion(revision uint64) {
	if c != nil {
		c.found(c.deletions, revision)
	}
}

func (c *sizes) found(open map[uint64]int64, revision uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open[revision] == 0 {
		return false
	}
	open[revision]--
	return true
}

// openDeletions returns the revisions in (lo, hi] at which an object was deleted that is not found yet.
func (c *sizes) openDeletions(lo, hi uint64) (revisions []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearch(c.order, lo+1)
	for ; i < len(c.order) && c.order[i] <= hi; i++ {
		if c.deletions[c.order[i]] > 0 {
			revisions = append(revisions, c.order[i])
		}
	}
	return revisions
}

// openAt returns how many objects were deleted at the revision that are not found yet.
func (c *sizes) openAt(revision uint64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deletions[revision]
}

func (c *sizes) allOpen() (all int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.deletions {
		all += n
	}
	return all
}

// readSizes reads the sizes, from the oldest on: the server compacts these first. Without sizes (of a large collection with
// selectors) transient objects can't be found, and the recovery is not complete.
func (s *search) readSizes(ctx context.Context) error {
	c := &sizes{counts: map[uint64]int64{s.To: s.Listed}, deletions: map[uint64]int64{}, creations: map[uint64]int64{}}
	if s.sizeAtFrom >= 0 {
		c.counts[s.From] = s.sizeAtFrom
	}
	err := s.readUnexplained(ctx, c)
	for err == nil { // compaction may have moved the oldest revision
		oldest := s.oldest.Load()
		if _, ok := c.counts[oldest]; ok {
			break
		}
		err = s.readSize(ctx, c, oldest)
	}
	if errors.Is(err, errNoSize) {
		s.incomplete(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	s.sizes = c
	return s.findUnexplained(c)
}

// readUnexplained reads the size at each revision that is not explained when its turn comes.
func (s *search) readUnexplained(ctx context.Context, c *sizes) error {
	return s.eachUnexplained(ctx, sizing, func(ctx context.Context, r uint64) error { return s.readShared(ctx, c, r) })
}

// eachUnexplained calls read with each revision within the gap that is not explained when its turn comes, several of them
// concurrently.
func (s *search) eachUnexplained(ctx context.Context, in stage, read func(context.Context, uint64) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(s.Parallel)
	next := func(r uint64) uint64 { return s.explained.lowest(max(r, s.oldest.Load()) + 1) }
	for r := s.oldest.Load(); inner.Err() == nil && next(r) < s.To; {
		if err := s.Participant.awaitTurn(inner, in); err != nil {
			break
		}
		if r = next(r); r < s.To { // others may have explained the rest meanwhile
			group.Go(func() error { return read(inner, r) })
		}
	}
	return cmp.Or(group.Wait(), ctx.Err())
}

func (s *search) readSize(ctx context.Context, c *sizes, r uint64) error {
	n, err := s.history.Size(ctx, r)
	if IsLost(err) {
		return s.lose(ctx, r, err)
	}
	if err != nil {
		return err
	}
	s.read.add(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[r] = n
	return nil
}

// findUnexplained finds the deletions and creations that the incarnations found so far do not explain.
func (s *search) findUnexplained(c *sizes) error {
	for r := range c.counts {
		if r >= s.oldest.Load() {
			c.asked = append(c.asked, r)
		}
	}
	slices.Sort(c.asked)
	steps, _ := s.steps()
	for i, r := range c.asked {
		if i == 0 {
			continue
		}
		before := c.asked[i-1]
		off := c.counts[r] - c.counts[before]
		for len(steps) > 0 && steps[0].revision <= r {
			if steps[0].revision > before {
				off -= steps[0].delta
			}
			steps = steps[1:]
		}
		if off < -1 && s.Kind.deletesOne() {
			return errSeveralKeys
		}
		if off > 0 {
			c.creations[r] = off
		} else if off < 0 {
			c.deletions[r] = -off
			c.order = append(c.order, r)
		}
	}
	return nil
}

type step struct {
	revision uint64
	delta    int64
}

// steps returns the known creations and deletions in order, and how many more objects (or fewer) existed at the oldest
// readable revision than at From.
func (s *search) steps() (steps []step, atFloor int64) {
	for _, all := range s.incarnations {
		for _, l := range all {
			switch {
			case l.logged && l.undated:
				atFloor--
			case l.logged || l.undated:
			case l.created == 0 || l.truncated:
				atFloor++ // created before the oldest revision
			default:
				steps = append(steps, step{l.created, 1})
			}
			if l.deleted != 0 {
				steps = append(steps, step{l.deleted, -1})
			}
		}
	}
	slices.SortFunc(steps, func(x, y step) int { return cmp.Compare(x.revision, y.revision) })
	return steps, atFloor
}

// unknown returns, for every revision whose size was read, in order, how many more objects existed than are known.
func (s *search) unknown() iter.Seq2[uint64, int64] {
	steps, atFloor := s.steps()
	known := int64(s.log.Len()) + atFloor
	return func(yield func(uint64, int64) bool) {
		for _, r := range s.sizes.asked {
			for len(steps) > 0 && steps[0].revision <= r {
				known += steps[0].delta
				steps = steps[1:]
			}
			if r >= s.oldest.Load() && !yield(r, s.sizes.counts[r]-known) {
				return
			}
		}
	}
}

// checkSizes compares every size with the incarnations found. If all sizes agree, nothing is missing.
func (s *search) checkSizes() {
	if s.sizes == nil {
		return
	}
	for r, n := range s.unknown() {
		if size := s.sizes.counts[r]; n != 0 {
			s.contradiction(fmt.Sprintf("at revision %d the collection had %d objects, and %d are known", r, size, size-n))
			return
		}
	}
}
