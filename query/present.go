package query

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Present follows the control records of a log. So a question about the end of the log reads only the records that are new. It is safe for
// concurrent use.
type Present struct {
	log    sinks.Reader
	mu     sync.Mutex
	all    *timelines    // has all resources, up to the last record that was read
	epochs map[int]int64 // the newest owner of each slot
}

// NewPresent returns a follower of a log, which has read nothing.
func NewPresent(r sinks.Reader) *Present { return &Present{log: r} }

// End is what the control records of a log say at its end.
type End struct {
	Cut       *sinks.Cut // after the last record that was read
	timelines *timelines
}

// OutOfOrder is how long after a later batch of another slot a batch may become visible.
const OutOfOrder = time.Minute

// errRenumbered says that a slot's log lost its end, and that new batches have the numbers of lost ones.
var errRenumbered = errors.New("batches have the numbers of lost ones")

// End reads the control records that are new.
func (p *Present) End(ctx context.Context) (*End, error) {
	retained, err := p.log.Retained(ctx, nil)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all != nil && !maps.EqualFunc(p.all.retained, retained, func(a, b sinks.Retained) bool { return a.Since.Equal(b.Since) }) {
		p.all = nil
	}
	if err = p.follow(ctx, retained); errors.Is(err, errRenumbered) {
		p.all = nil
		err = p.follow(ctx, retained)
	}
	if err != nil {
		p.all = nil // a part of a batch may have been read
		return nil, err
	}
	s := *p.all
	s.retained, s.steps, s.streams = retained, slices.Clone(s.steps), map[change.StreamID]*timeline{}
	for id, st := range p.all.streams {
		s.streams[id] = st.atEnd()
	}
	cut := &sinks.Cut{Batches: maps.Clone(s.read.last)}
	s.cut = cut
	return &End{cut, &s}, nil
}

func (p *Present) follow(ctx context.Context, retained map[string]sinks.Retained) error {
	var since time.Time
	if p.all == nil {
		p.all, p.epochs = newTimelines(nil, retained, Target{}, nil), map[int]int64{}
	} else {
		since = p.all.ends.Add(-OutOfOrder)
	}
	return p.log.Controls(ctx, since, p.all.needsAll, func(c *change.Control) error {
		epoch := p.epochs[c.Slot]
		p.epochs[c.Slot] = max(epoch, c.Epoch)
		switch last, known := p.all.read.last[c.Slot]; {
		case !known || c.Batch > last:
			return p.all.addControl(c)
		case c.Epoch > epoch:
			return errRenumbered
		}
		return nil
	})
}

// atEnd returns a copy of what a question about the end of the log needs.
func (st *timeline) atEnd() *timeline {
	now := *st
	now.delays, now.gaps, now.eras = delays{}, slices.Clone(st.gaps), slices.Clone(st.eras)
	for i, e := range now.eras {
		own := *e
		now.eras[i] = &own
	}
	return &now
}

// OpenPages is OpenPages for the end of a log.
func (e *End) OpenPages(ctx context.Context, r sinks.Reader, q Question) (*Pages, error) {
	s := *e.timelines
	s.resources, s.streams = q.Resources, maps.Clone(s.streams)
	maps.DeleteFunc(s.streams, func(id change.StreamID, _ *timeline) bool { return !s.selects(change.ResourceOf(id).ID()) })
	if err := s.verify(ctx, r); err != nil {
		return nil, err
	}
	return s.openPages(ctx, r, q, Target{})
}
