package apiclient

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// Pace decides how many objects the pages of a collection's lists ask for. It asks for fewer objects if a page takes long, since
// they are large, or the network or the log is slow. An API server ends a request after its --request-timeout (60 s), after any
// part of the page, and would end the same page again. A continue token takes any limit. A Pace is safe for concurrent use.
type Pace struct {
	mu          sync.Mutex
	most, limit int
	fits        int // how many objects the last page could have had within pageTime
}

// smallPage is how many objects a pace asks for that knows nothing. It asks for twice as many after each page that comes soon. If
// a server can't finish a page, all its conversions for the page are lost.
const smallPage = 500

// NewPace returns a pace that asks for so many objects a page at most.
func NewPace(most int) *Pace { return &Pace{most: most, limit: min(smallPage, most), fits: most} }

// Upto returns another pace, for larger pages, that begins with what p has learned. p may be nil. The past may take longer than
// the present, which a cache may have.
func (p *Pace) Upto(most int) *Pace {
	other := NewPace(most)
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fits != p.most {
			other.limit = max(min(p.fits, other.limit), 1)
		}
	}
	return other
}

const (
	pageTime = 20 * time.Second // what a page is to take at most: a third of an API server's timeout
	tooSoon  = 3 * time.Second  // what comes sooner is no reason to ask for less
)

// limitBelow is how many objects the next page asks for, if it may have so many at most. With 0 the pace alone decides.
func (p *Pace) limitBelow(most int) int {
	if limit := p.Limit(); most == 0 || limit < most {
		return limit
	}
	return most
}

// Limit is how many objects the next page asks for.
func (p *Pace) Limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// record learns from a page: how many objects were read from it, in what time, and how it ended.
func (p *Pace) record(limit, objects int, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.fits = int(min(int64(limit)*int64(pageTime)/max(int64(took), 1), math.MaxInt32))
		fits := max(p.fits, 1)
		if took < tooSoon {
			fits = p.most
		}
		p.limit = min(fits, max(2*limit, p.limit), p.most)
	case took > tooSoon && isCut(err):
		p.limit = max(min(objects, p.limit)/2, 1)
		p.fits = p.limit
	}
}

// isCut reports whether a page may have been ended by a server, or by a proxy, because it took too long. That is any error except
// an answer that refuses the page.
func isCut(err error) bool {
	code := StatusCode(err)
	return code == 0 || code >= http.StatusInternalServerError
}
