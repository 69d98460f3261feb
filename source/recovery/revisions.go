package recovery

import (
	"maps"
	"math/bits"
	"slices"
	"sync"
)

// revisions is a set of revisions, in pages of bits.
type revisions struct {
	limit int // how many pages it keeps, the newest; 0: all

	mu    sync.Mutex
	pages map[uint64]*page
	added int
}

type page [pageSize / 64]uint64

const pageSize = 4096

func (x *revisions) add(revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.page(revision / pageSize); p != nil {
		p[revision%pageSize/64] |= 1 << (revision % 64)
		x.added++
	}
}

// page returns the page with a number, or nil if it is older than all pages, and there is no room for one more.
func (x *revisions) page(n uint64) *page {
	p := x.pages[n]
	if p == nil {
		if x.limit > 0 && len(x.pages) >= x.limit {
			oldest := slices.Min(slices.Collect(maps.Keys(x.pages)))
			if n < oldest {
				return nil
			}
			delete(x.pages, oldest)
		}
		if x.pages == nil {
			x.pages = map[uint64]*page{}
		}
		p = &page{}
		x.pages[n] = p
	}
	return p
}

// merge adds the revisions of another set.
func (x *revisions) merge(y *revisions) {
	y.mu.Lock()
	defer y.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for n, added := range y.pages {
		if p := x.page(n); p != nil {
			p.add(added)
		}
	}
}

// len returns how often a revision was added.
func (x *revisions) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.added
}

func (x *revisions) addTo(into *page, n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pages[n]; p != nil {
		into.add(p)
	}
}

func (x *revisions) removeFrom(from *page, n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pages[n]; p != nil {
		for i := range p {
			from[i] &^= p[i]
		}
	}
}

func (p *page) add(q *page) {
	for i := range p {
		p[i] |= q[i]
	}
}

// count returns how many revisions in (lo, hi] the set has.
func (x *revisions) count(lo, hi uint64) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for number, p := range x.pages {
		n += p.count(number, lo, hi)
	}
	return n
}

// count returns how many revisions in (lo, hi] the page, number n, has.
func (p *page) count(n, lo, hi uint64) (count int) {
	for i, word := range p {
		offset := n*pageSize + uint64(i*64)
		if offset+63 <= lo || offset > hi {
			continue
		}
		if offset <= lo {
			word &= ^uint64(0) << (lo - offset) << 1
		}
		if hi-offset < 63 {
			word &= ^uint64(0) >> (63 - (hi - offset))
		}
		count += bits.OnesCount64(word)
	}
	return count
}

func (x *revisions) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pages, x.added = nil, 0
}

// highestMissing returns the highest revision of the page, number n, that is at most this one and not in the page.
func (p *page) highestMissing(n, revision uint64) (uint64, bool) {
	for i, mask := int(revision%pageSize/64), ^uint64(0)>>(63-revision%64); i >= 0; i, mask = i-1, ^uint64(0) {
		if missing := ^p[i] & mask; missing != 0 {
			return n*pageSize + uint64(i*64+63-bits.LeadingZeros64(missing)), true
		}
	}
	return 0, false
}

// lowestMissing returns the lowest revision of the page that is at least this one and not in the page.
func (p *page) lowestMissing(n, revision uint64) (uint64, bool) {
	for i, mask := int(revision%pageSize/64), ^uint64(0)<<(revision%64); i < len(p); i, mask = i+1, ^uint64(0) {
		if missing := ^p[i] & mask; missing != 0 {
			return n*pageSize + uint64(i*64+bits.TrailingZeros64(missing)), true
		}
	}
	return 0, false
}
