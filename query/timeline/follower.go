package timeline

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

// Follower follows the control records of a log. So a question about the end of the log reads only the records that are new. A
// question about an earlier moment reads those near it. It is safe for concurrent use.
type Follower struct {
	Log    sinks.Reader
	mu     sync.Mutex
	all    *Set          // has all resources, up to the last record that was read
	epochs map[int]int64 // the newest owner of each slot
	stops  []*Set        // copies of the complete state after some batches, each with the times since the previous copy
	began  time.Time     // when the last reading began
	read   int           // records since the last stop
	every  int           // records between two stops
}

const (
	mostStops  = 64 // a stop has about 1.5 KB for each stream
	firstEvery = 16 // records between two stops of a short log
)

// NewFollower returns a follower of a log, which has read nothing.
func NewFollower(r sinks.Reader) *Follower { return &Follower{Log: r} }

// outOfOrder is how long after a later batch of another slot a batch may become visible.
const outOfOrder = time.Minute

// errRenumbered says that a slot's log lost its end, and that new batches have the numbers of lost ones.
var errRenumbered = errors.New("batches have the numbers of lost ones")

// follow reads the control records that are new. It returns what the log tells of some resources at its end, and the stops
// before.
func (f *Follower) follow(ctx context.Context, resources []string) (end *Set, stops []*Set, err error) {
	retained, err := f.Log.Retained(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	arrived := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // or the next client would begin again
	if f.all != nil && !maps.EqualFunc(f.all.retained, retained,
		func(a, b sinks.Retained) bool { return a.Since.Equal(b.Since) }) {
		f.all = nil
	}
	if f.all == nil || !f.began.After(arrived) { // or those who waited together share one reading
		f.began = time.Now()
		err = f.readNew(ctx, retained)
	}
	if errors.Is(err, errRenumbered) {
		f.all = nil
		err = f.readNew(ctx, retained)
	}
	if err != nil {
		f.all = nil // a part of a batch may have been read
		return nil, nil, err
	}
	end = f.all.copyOf(resources)
	end.retained = retained
	return end, slices.Clone(f.stops), nil
}

func (f *Follower) readNew(ctx context.Context, retained map[string]sinks.Retained) error {
	var since time.Time
	if f.all == nil {
		f.all, f.epochs, f.stops, f.read, f.every = newSet(nil, retained, Target{}, nil), map[int]int64{}, nil, 0, firstEvery
	} else {
		since = f.all.ends.Add(-outOfOrder)
	}
	return f.Log.Controls(ctx, since, f.all.needsAll, func(c *change.Control) error {
		epoch := f.epochs[c.Slot]
		f.epochs[c.Slot] = max(epoch, c.Epoch)
		switch has, _ := f.all.read.Place.Has(c.Slot, c.Batch); {
		case has && c.Epoch > epoch:
			return errRenumbered
		case has:
			return nil
		}
		err := f.all.addControl(c)
		if f.read++; c.Type == change.ControlBatch && f.read >= f.every {
			f.stop()
		}
		return err
	})
}

// stop copies what is known so far. If there are too many stops, it drops every second one.
func (f *Follower) stop() {
	if len(f.stops) == mostStops {
		fewer := make([]*Set, 0, mostStops)
		for pair := range slices.Chunk(f.stops, 2) {
			both := *pair[1]
			both.include(pair[0].earliest)
			both.include(pair[0].latest)
			fewer = append(fewer, &both)
		}
		f.stops, f.every = fewer, 2*f.every
	}
	lean := *f.all
	lean.streams = map[change.StreamID]*Timeline{}
	for id, st := range f.all.streams { // no time before the stop is asked of it, but its last position may be a late one
		own, unread, tenures := *st, st.delays.unread, st.delays.tenures
		own.delays.unread, own.delays.tenures = slices.Clip(unread[max(0, len(unread)-1):]), tenures[max(0, len(tenures)-2):]
		lean.streams[id] = &own
	}
	f.stops, f.read = append(f.stops, lean.copyOf(nil)), 0
	f.all.earliest, f.all.latest = time.Time{}, time.Time{}
}

// Moment returns what the control records of the log tell of some resources at a moment. It reads the new ones, and those near
// the moment.
func (f *Follower) Moment(ctx context.Context, resources []string, moment Target) (*Set, error) {
	end, stops, err := f.follow(ctx, resources)
	if err == nil {
		err = end.verify(ctx, f.Log)
	}
	if err != nil {
		return nil, err
	}
	if moment == (Target{}) {
		end.Cut = &sinks.Cut{Batches: maps.Clone(end.read.Place)}
		return end, nil
	}
	since := time.Time{}
	for _, stop := range stops {
		if b := moment.Batch; b != nil && stop.read.Place[b.Slot] < b.Number {
			since = stop.ends.Add(-outOfOrder)
		}
	}
	target, cut, err := resolveWithCut(ctx, f.Log, moment, since)
	if err != nil {
		return nil, err
	}
	near, err := f.near(ctx, end, stops, target, cut)
	if err != nil {
		return nil, err
	}
	end.addNear(near)
	return end, nil
}

// near reads the control records near a target. It begins at the last stop before them.
func (f *Follower) near(ctx context.Context, end *Set, stops []*Set, target Target, cut *sinks.Cut) (*Set, error) {
	s, since, until := newSet(end.resources, end.retained, target, cut), time.Time{}, 0
	for _, stop := range stops {
		own := stop.copyOf(end.resources)
		if !own.isBefore(target, cut) {
			break
		}
		s, since = own, stop.ends.Add(-outOfOrder)
	}
	if s.target, s.Cut = target, cut; target.Version != "" {
		for _, st := range s.streams {
			st.atTarget = Mark{}
			for _, e := range st.eras {
				e.reached = e.last.Time
			}
		}
	}
	for _, stop := range append(stops, end) {
		if !target.Happened.IsZero() && !stop.earliest.IsZero() && !stop.earliest.After(target.Happened.Add(around)) {
			until = stop.read.n
		}
	}
	err := f.Log.Controls(ctx, since, s.needsAll, func(c *change.Control) error {
		if has, _ := s.read.Place.Has(c.Slot, c.Batch); has || c.Batch > end.read.Place[c.Slot] {
			return nil
		}
		if err := s.addControl(c); err != nil || c.Type != change.ControlBatch || s.read.n < until || !s.isPast(end) {
			return err
		}
		return sinks.ErrEnough
	})
	if errors.Is(err, sinks.ErrEnough) {
		err = nil
	}
	return s, err
}

// isBefore reports whether all records up to a stop are before a target, and none since the stop before is near it.
func (s *Set) isBefore(target Target, cut *sinks.Cut) bool {
	switch {
	case cut != nil:
		for slot, last := range s.read.Place {
			if has, _ := cut.Batches.Has(slot, last); !has {
				return false
			}
		}
		return true
	case target.Version == "":
		return s.latest.Before(target.Happened.Add(-around))
	}
	for _, st := range s.streams {
		if st.highest.Compare(target.Version) > 0 {
			return false
		}
	}
	return true
}

// isPast reports whether the rest of the log, up to the end, has nothing more about the target. Then each stream has a position
// after the target, or has no more positions.
func (s *Set) isPast(end *Set) bool {
	isAfter := s.isAfterTarget
	if s.Cut != nil {
		for slot, last := range s.Cut.Batches {
			if s.read.Place[slot] < last {
				return false
			}
		}
		isAfter = func(m Mark) bool { return !s.hasReached(m) }
	}
	for id, known := range end.streams {
		st := s.streams[id]
		switch {
		case s.Cut == nil && !s.hasEra(st, known):
			return false
		case known.last.Version == "" || st != nil &&
			(st.afterTarget.Version != "" || s.Cut != nil && st.last.Version != "" && isAfter(st.last)):
		case st == nil || st.last.Version == "":
			if !isAfter(known.first()) {
				return false
			}
		case known.last.n > st.last.n:
			return false
		}
	}
	return true
}

// hasEra reports whether the records so far have all eras of a stream that may have the target's version.
func (s *Set) hasEra(st, known *Timeline) bool {
	eras, all := 0, s.erasOf(known)
	if st != nil {
		eras = len(st.eras)
	}
	return len(all) == 0 || len(all) == 1 && slices.Index(known.eras, all[0]) < eras
}

// addNear adds what the records near a target tell.
func (s *Set) addNear(near *Set) {
	s.target, s.Cut, s.activity = near.target, near.Cut, near.activity
	for _, x := range s.steps {
		if x.n >= near.read.n {
			near.addStep(x)
		}
	}
	if s.steps = near.steps; near.ends.After(s.ends) {
		s.ends = near.ends
	}
	for id, st := range s.streams {
		found := near.streams[id]
		if found == nil {
			found = &Timeline{}
		}
		for i, e := range found.eras[:min(len(found.eras), len(st.eras))] {
			st.eras[i].last, st.eras[i].reached = later(e.last, st.eras[i].last), e.reached
		}
		if st.nearTarget = found.nearTarget; found.last.Version == "" {
			if first := st.first(); s.isAfterTarget(first) {
				st.afterTarget = first
			}
			continue
		}
		for i := range found.gaps {
			st.gaps[i].since = found.gaps[i].since
		}
		st.delays.addNear(&found.delays, found.last)
	}
}

// CutBefore finds a cut after which the log has every change of a resource that is newer than a version. The log may have older
// changes after it, too. It returns nil if all changes must be read.
func (f *Follower) CutBefore(ctx context.Context, resource string, version change.ResourceVersion) (*sinks.Cut, error) {
	s, err := f.Moment(ctx, []string{resource}, Target{Version: version})
	if err != nil {
		return nil, err
	}
	for _, st := range s.streams {
		if err := s.checkUnique(st); err != nil {
			return nil, err
		}
	}
	position := s.SafePosition()
	if position.Version == "" {
		return nil, nil
	}
	cut, err := f.Log.CutAt(ctx, s.TimeBefore(position))
	if err != nil {
		return nil, UnlessPruned(err)
	}
	return &cut, nil
}

// Gap returns the record of a stream's gap, or nil if the log has none, and whether the log has all changes up to the gap's end.
func (f *Follower) Gap(ctx context.Context, stream change.StreamID, id string) (gap *change.Gap, hasAll bool, err error) {
	end, _, err := f.follow(ctx, []string{change.ResourceOf(stream).ID()})
	if err != nil || end.streams[stream] == nil {
		return nil, false, err
	}
	st := end.streams[stream]
	for _, g := range st.recorded {
		if g.ID == id {
			gap, hasAll = g, st.last.Version.Compare(g.To) >= 0
		}
	}
	return gap, hasAll, nil
}

// Restores returns how often etcd was restored from a backup, by all streams of a resource (Coverage.Restores).
func (f *Follower) Restores(ctx context.Context, resource string) (n int, err error) {
	end, _, err := f.follow(ctx, []string{resource})
	if err == nil {
		for _, st := range end.streams {
			n += st.restores()
		}
	}
	return n, err
}
