package query

import (
	"context"
	"errors"

	"kubecdc/sinks"
)

// fill reads the changes: all, or where the log finds states, what there was at a cut that is the moment, or is before it, and from
// there on what became of each object until the moment.
func fill(ctx context.Context, r sinks.Reader, q sinks.Query, readers ...*stateReader) error {
	var slow []*stateReader
	states, able := r.(sinks.StateReader)
	for _, f := range readers {
		quick, err := able && q.Name == "", error(nil)
		if quick {
			quick, err = f.quick(ctx, r, states, q)
		}
		if err != nil {
			return err
		}
		if !quick {
			slow = append(slow, f)
		}
	}
	if len(slow) == 0 {
		return nil
	}
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		record := &record{Logged: l}
		for _, f := range slow {
			f.add(record)
		}
		return nil
	})
}

// quick fills one state. It reports false, and has filled nothing, if every change must be read.
func (f *stateReader) quick(ctx context.Context, log sinks.Reader, r sinks.StateReader, q sinks.Query) (done bool, err error) {
	add := func(l *sinks.Logged) error {
		f.add(&record{Logged: l})
		return nil
	}
	q.To = f.cut
	if f.cut != nil {
		return true, r.States(ctx, q, add)
	}
	base := f.base()
	if base.Version == "" {
		return false, nil
	}
	cut, err := log.At(ctx, f.stories.timeBefore(base))
	if err != nil {
		return false, unlessNotKept(err)
	}
	f.whole, q.To = true, &cut
	err = r.States(ctx, q, func(l *sinks.Logged) error {
		st := f.stories.streams[l.Stream.ID()]
		switch {
		case st != nil && st.base.Version == "" && st.beyond.Version != "": // it began after the moment
			return nil
		case st == nil || f.stories.when(st, l) > 0 || f.orderOf(l, st) != before:
			return errStop
		}
		return add(l)
	})
	if err == nil {
		wanted := q.Wanted
		q.After, q.To, q.Wanted = q.To, nil, func(l *sinks.Logged) bool { return (wanted == nil || wanted(l)) && f.wants(l) }
		return true, r.Rest(ctx, q, add)
	}
	clear(f.objects)
	f.whole = false
	if errors.Is(err, errStop) {
		return false, nil
	}
	return false, unlessNotKept(err)
}

func unlessNotKept(err error) error {
	if errors.Is(err, sinks.ErrNotKept) {
		return nil
	}
	return err
}

// base is a position by which the log has nothing of any stream that is after the moment, but for parts of lists, which quick finds;
// empty: there is none. Up to a position the log has only what happened up to its version. What it gets later may be older than the
// moment all the same: what a snapshot or a proof has corrected, or a list has found.
func (f *stateReader) base() (first Mark) {
	var last Mark
	for _, st := range f.stories.streams {
		switch b := st.held; {
		case b.Version == "":
		case st.beyond.Version != "" && (first.Version == "" || b.n < first.n):
			first = b
		case last.Version == "" || b.n > last.n:
			last = b
		}
	}
	if first.Version == "" {
		return last
	}
	return first
}

// wants reports whether a change tells something about the moment, with its images. Of an object it need not be asked again once it
// does not.
func (f *stateReader) wants(l *sinks.Logged) bool {
	st := f.stories.streams[l.Stream.ID()]
	o := f.object(l, st)
	if o == nil {
		return true // what follows may be of the moment's era
	}
	if o.phase == decided {
		return false
	}
	if f.orderOf(l, st) == before {
		return true
	}
	f.add(&record{Logged: l}) // its object is known, so its images tell nothing
	return false
}
