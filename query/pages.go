package query

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Pages reads the state of one resource at a moment. OpenPages reads what the log can tell of all of it, Page reads objects. If a log does
// not find objects in the order of their keys, it is read once, and the state is held in memory. Pages is safe for concurrent use.
type Pages struct {
	*State     // without objects
	log        sinks.Reader
	query      sinks.Query
	namespace  string
	found      *stateReader // without objects
	unsortable atomic.Bool  // the log does not find them in order
	mu         sync.Mutex
	all        *stateReader // the state that is held
}

// Page is some objects of a state, in the order of their keys.
type Page struct {
	Objects []*Object
	Next    string   // the key after which the next page begins, or empty if this page is the last one
	Missing []string // all that the page may lack, or empty if it is complete
}

// OpenPages finds out what a log can tell of one resource at a moment.
func OpenPages(ctx context.Context, r sinks.Reader, q Question, moment Target) (*Pages, error) {
	retained, err := r.Retained(ctx, q.Resources)
	if err != nil {
		return nil, err
	}
	f, state, err := newStateReader(ctx, r, q, retained, moment)
	if err != nil {
		return nil, err
	}
	if state.labelled, err = q.Labelled(); err != nil {
		return nil, err
	}
	for i := range state.Coverage {
		state.Coverage[i].Missing = slices.Clip(state.Coverage[i].Missing)
	}
	p := &Pages{State: state, log: r, query: q.Query(), namespace: q.Namespace, found: f}
	p.Missing = p.doubts(f)
	return p, nil
}

// doubts tells what objects, and the rest of the answer, may lack.
func (p *Pages) doubts(f *stateReader) []string {
	s := &State{Coverage: slices.Clone(p.Coverage)}
	f.addDoubts(s, p.namespace)
	return s.Missing
}

// Within is a part of a state: of a namespace, of a name, after a key. Empty: all.
type Within struct{ Namespace, Name, After string }

// Page reads about n objects.
func (p *Pages) Page(ctx context.Context, part Within, n int) (*Page, error) {
	q := p.query
	q.Namespace, q.Name, q.Keys = cmp.Or(part.Namespace, q.Namespace), cmp.Or(part.Name, q.Name), &sinks.Keys{After: part.After}
	f, upTo := p.found.withoutObjects(), &limit{n: n}
	err := errors.ErrUnsupported
	if !p.unsortable.Load() {
		err = f.fillPage(ctx, p.log, q, upTo)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		p.unsortable.Store(true)
		if f, err = p.hold(ctx); err == nil {
			f, upTo = f.part(part, n)
		}
	}
	if err != nil {
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

// hold reads all objects, once.
func (p *Pages) hold(ctx context.Context) (*stateReader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		all := p.found.withoutObjects()
		if err := fill(ctx, p.log, p.query, all); err != nil {
			return nil, err
		}
		p.all = all
	}
	return p.all, nil
}

// Held is how many objects are held.
func (p *Pages) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		return 0
	}
	return len(p.all.objects)
}

// withoutObjects is a reader of the same moment.
func (f *stateReader) withoutObjects() *stateReader {
	other := *f
	other.objects, other.unrecorded = map[string]*object{}, map[change.StreamID]bool{}
	return &other
}

// part is the first n objects of a part.
func (f *stateReader) part(within Within, n int) (*stateReader, *limit) {
	part, upTo := f.withoutObjects(), &limit{n: n}
	part.unrecorded = f.unrecorded
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		o := f.objects[key]
		if _, key, _ := strings.Cut(key, "\x00"); o.live() == nil || key <= within.After || within.Namespace != "" && within.Namespace != o.namespace ||
			within.Name != "" && within.Name != o.name {
			continue
		} else if upTo.isOver(key) {
			break
		}
		part.objects[key] = o
	}
	return part, upTo
}

// limit ends a reading in the order of keys before the name that is one too many.
type limit struct {
	n, names   int
	last, next string
}

// isOver reports whether a key is one too many.
func (l *limit) isOver(key string) bool {
	if l.names == 0 || key != l.last {
		if l.names == l.n {
			l.next = l.last
			return true
		}
		l.names, l.last = l.names+1, strings.Clone(key)
	}
	return false
}

// first reads the names up to the limit.
func (l *limit) first(ctx context.Context, r sinks.Reader, q sinks.Query, visit func(*sinks.Logged) error) error {
	*l = limit{n: l.n}
	over := false
	err := r.Changes(ctx, q, func(c *sinks.Logged) error {
		if over = l.isOver(c.Change.Key()); over {
			return errStop
		}
		return visit(c)
	})
	if over && errors.Is(err, errStop) {
		return nil
	}
	return err
}
