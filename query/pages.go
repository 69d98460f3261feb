package query

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// Pages reads the state of one resource at a moment. OpenPages reads what the log can tell of all of it, Page reads objects. The
// log must find objects in the order of their keys. Pages is safe for concurrent use.
type Pages struct {
	*State    // without objects
	log       sinks.Reader
	query     sinks.Query
	namespace string
	found     *stateReader // without objects
	Shown     time.Time    // the newest time that the log shows of what happened up to the moment
	Current   time.Time    // by when the log has all of the resource, or zero if it was removed
}

// Page is some objects of a state, in the order of their keys.
type Page struct {
	Objects []*Object
	Next    string   // the key after which the next page begins, or empty if this page is the last one
	Missing []string // what the page may lack, or empty if the page is complete
}

// OpenPages finds out what a log can answer about one resource at a moment. known is what its follower says about the moment.
func OpenPages(ctx context.Context, follower *timeline.Follower, known *timeline.Set, q Question,
	moment timeline.Target) (*Pages, error) {
	log := follower.Log
	f, state, err := newStateReader(ctx, log, known, follower.Moment, q, moment)
	if err != nil {
		return nil, err
	}
	if state.labelled, err = q.Labelled(); err != nil {
		return nil, err
	}
	for i := range state.Coverage {
		state.Coverage[i].Missing = slices.Clip(state.Coverage[i].Missing)
	}
	p := &Pages{State: state, log: log, query: q.Query(), namespace: q.Namespace, found: f}
	p.Missing, p.Current = p.doubts(f), known.Current()
	p.Shown, err = known.ShownTime(ctx, log, state.Coverage)
	return p, err
}

// doubts tells what objects, and the rest of the answer, may lack.
func (p *Pages) doubts(f *stateReader) []string {
	s := &State{Coverage: slices.Clone(p.Coverage)}
	f.addDoubts(s, p.namespace)
	return s.Missing
}

// Within selects a part of a state: the objects in Namespace, with Name, and after the key After. An empty field selects all.
type Within struct {
	Namespace, Name, After string
	NoBodies               bool // the objects have the body {}, which costs less. An empty version is one that only the body has
}

// pageBytes is the size of the objects after which a page ends.
const pageBytes = 2 << 20

// Page reads about n objects, or fewer if they are large.
func (p *Pages) Page(ctx context.Context, part Within, n int) (*Page, error) {
	q := p.query
	q.Namespace, q.Name, q.Keys = cmp.Or(part.Namespace, q.Namespace), cmp.Or(part.Name, q.Name), &sinks.Keys{After: part.After}
	q.NoBodies = part.NoBodies
	f, upTo := p.found.withoutObjects(), &limit{n: n, mostBytes: pageBytes}
	f.noBodies = part.NoBodies
	if err := f.fillPage(ctx, p.log, q, upTo); err != nil {
		return nil, err
	}
	page := &Page{Next: upTo.next, Missing: p.doubts(f)}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		var own []byte
		o, err := f.objects[key].live().unpack(&own)
		if err != nil {
			return nil, err
		}
		if p.has(o) {
			page.Objects = append(page.Objects, o)
		}
	}
	return page, nil
}

// withoutObjects is a reader of the same moment.
func (f *stateReader) withoutObjects() *stateReader {
	other := *f
	other.objects, other.unrecorded = map[string]*object{}, map[change.StreamID]bool{}
	return &other
}

// limit ends a reading in the order of keys before the name that is one too many, or after some bytes.
type limit struct {
	n, mostBytes int
	names, bytes int
	size         int // the last name's largest object has this size
	last, next   string
}

// isOver reports whether a key is one too many.
func (l *limit) isOver(key string) bool {
	if l.names == 0 || key != l.last {
		if l.bytes += l.size; l.names == l.n || l.bytes > l.mostBytes {
			l.next = l.last
			return true
		}
		l.names, l.size, l.last = l.names+1, 0, strings.Clone(key)
	}
	return false
}

// first reads the names up to the limit.
func (l *limit) first(ctx context.Context, r sinks.Reader, q sinks.Query, visit func(*sinks.Logged) error) error {
	*l = limit{n: l.n, mostBytes: l.mostBytes}
	over := false
	err := r.Changes(ctx, q, func(c *sinks.Logged) error {
		if over = l.isOver(c.Change.Key()); over {
			return sinks.ErrEnough
		}
		l.size = max(l.size, len(c.Before), len(c.After))
		return visit(c)
	})
	if over && errors.Is(err, sinks.ErrEnough) {
		return nil
	}
	return err
}
