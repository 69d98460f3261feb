package query

import (
	"context"
	"errors"
	"math"

	"kubecdc/change"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// fill reads the changes that the states need. If the log finds the changes of single objects, it reads the state at a cut before
// the moment, and the changes after it. Otherwise it reads all changes once.
func fill(ctx context.Context, r sinks.Reader, q sinks.Query, readers ...*stateReader) error {
	var slow []*stateReader
	for _, f := range readers {
		done, err := f.quick(ctx, r, q, nil)
		if err != nil {
			return err
		}
		if !done {
			slow = append(slow, f)
		}
	}
	if len(slow) == 0 {
		return nil
	}
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		record := &record{Logged: l}
		for _, f := range slow {
			f.addRecord(record)
		}
		return nil
	})
}

// fillPage fills a state with the objects of a page.
func (f *stateReader) fillPage(ctx context.Context, r sinks.Reader, q sinks.Query, upTo *limit) error {
	done, err := f.quick(ctx, r, q, upTo)
	if err != nil || done {
		return err
	}
	return upTo.first(ctx, r, q, f.visit)
}

func (f *stateReader) visit(l *sinks.Logged) error {
	f.addRecord(&record{Logged: l})
	return nil
}

// plan finds the cut at which objects are read first. It is the moment's own cut, or one before the moment, or nil if every
// change must be read.
func (f *stateReader) plan(ctx context.Context, r sinks.Reader) error {
	if !r.FindsObjects() {
		return nil
	}
	if f.start = f.timelines.Cut; f.timelines.Cut != nil {
		return nil
	}
	position := f.timelines.SafePosition()
	if position.Version == "" {
		return nil
	}
	cut, err := r.CutAt(ctx, f.timelines.TimeBefore(position))
	if err == nil {
		f.start = &cut
	}
	return timeline.UnlessPruned(err)
}

// quick fills one state, up to a limit if there is one. It reports false, and has filled nothing, if every change must be read.
func (f *stateReader) quick(ctx context.Context, r sinks.Reader, q sinks.Query, upTo *limit) (done bool, err error) {
	if f.start == nil {
		return false, nil
	}
	if upTo == nil {
		upTo = &limit{n: math.MaxInt, mostBytes: math.MaxInt}
	}
	last := q
	last.Each, last.To = sinks.Last, f.start
	err = upTo.first(ctx, r, last, f.visitBase)
	if err == nil && f.timelines.Cut != nil {
		return true, nil
	}
	if err == nil {
		if q.Keys != nil {
			q.Keys = &sinks.Keys{After: q.Keys.After, UpTo: upTo.next}
		}
		wanted := q.Wanted
		q.Each, q.After, q.Wanted = sinks.Rest, f.start, func(l *sinks.Logged) bool {
			return (wanted == nil || wanted(l)) &&
				f.wants(l)
		}
		return true, r.Changes(ctx, q, f.visit)
	}
	if clear(f.objects); errors.Is(err, sinks.ErrEnough) {
		return false, nil
	}
	return false, timeline.UnlessPruned(err)
}

// visitBase takes what there was before the moment.
func (f *stateReader) visitBase(l *sinks.Logged) error {
	st := f.timelines.StreamOf(l)
	switch {
	case st != nil && st.BeginsAfterTarget():
		return nil
	case f.start.Has(l):
		if era, _ := f.timelines.CompareEra(st, l); st == nil || era > 0 || f.timelines.OrderOf(l, st) != timeline.Before {
			return sinks.ErrEnough
		}
	}
	return f.visit(l)
}

// wants reports whether the images of a change say something about the moment. Once it returns false for an object, it need not
// be asked again about that object.
func (f *stateReader) wants(l *sinks.Logged) bool {
	st := f.timelines.StreamOf(l)
	o := f.object(l, st)
	if o == nil {
		return true // a later change may be in the era of the requested moment
	}
	if o.phase == decided {
		return false
	}
	if f.timelines.OrderOf(l, st) == timeline.Before || o.phase == unread && (l.Op == change.Update || l.Op == change.Delete) {
		return true
	}
	f.addRecord(&record{Logged: l}) // the object is already known, or did not exist, so the images are not needed
	return false
}
