package timeline

import (
	"context"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Late is the times in which streams were read late, the gaps from which changes were recovered, and what was left out.
type Late struct {
	spans    map[change.StreamID][]span
	complete map[string]bool // whether a gap was recovered completely, by its id
	owners   *owners
}

func newLate() Late {
	return Late{map[change.StreamID][]span{}, map[string]bool{}, newOwners()}
}

// addGap adds a gap. If an id has two records, both must be complete.
func (s Late) addGap(g *change.Gap) {
	complete, known := s.complete[g.ID]
	s.complete[g.ID] = g.Complete && (complete || !known)
}

// Skips reports whether the log may lack changes that were right before a recovered one. If the log does not say, the result is
// true.
func (s Late) Skips(l *sinks.Logged) bool { return l.Gap != "" && !s.complete[l.Gap] }

// Ignores reports whether the settings may have left out updates of a resource between a time and a change. known says that the
// log tells what they left out.
func (s Late) Ignores(resource string, since time.Time, l *sinks.Logged) (may, known bool) {
	return s.owners.ignores(resource, since, l)
}

// Knows reports whether the owner that wrote a change is known.
func (s Late) Knows(l *sinks.Logged) bool {
	return s.owners != nil && s.owners.all[ownerID{l.Slot, l.Epoch}] != nil
}

// Has reports whether a change may have happened long before it was seen, since nobody read its stream then.
func (s Late) Has(l *sinks.Logged) bool {
	return slices.ContainsFunc(s.spans[l.Stream.ID()], func(s span) bool { return l.Time.After(s.from) && !l.Time.After(s.to) })
}

// Since returns the earliest time at which changes that were seen after a time may have happened. It allows for a clock that
// differs. Zero stands for all times.
func (s Late) Since(seen time.Time) time.Time {
	earliest := seen
	for _, spans := range s.spans {
		for _, late := range spans {
			if !late.to.Before(seen.Add(-ClockMargin)) && late.from.Before(earliest) {
				earliest = late.from
			}
		}
	}
	if earliest.Unix() < 0 { // it was never read before
		return time.Time{}
	}
	return earliest
}

// ClockMargin is how long before the first change the records are read, since clocks differ.
const ClockMargin = time.Hour

// LateAmong returns when these streams were read late, and their gaps.
func LateAmong(coverage []Coverage) Late {
	all := newLate()
	for i := range coverage {
		all.spans[coverage[i].Stream], all.owners = coverage[i].lates, coverage[i].owners
		for _, g := range coverage[i].gaps {
			all.addGap(g)
		}
	}
	return all
}

// LateSince returns the same for the changes that were seen since a time. It reads only the control records from that time on,
// and one hour before it, since the log's clock may differ.
func LateSince(ctx context.Context, r sinks.Reader, seen time.Time) (Late, error) {
	all := newLate()
	err := r.Controls(ctx, seen.Add(-ClockMargin), func(*sinks.Span) bool { return false }, func(c *change.Control) error {
		all.owners.add(c)
		switch {
		case c.Type == change.ControlBehind:
			all.spans[c.Stream] = append(all.spans[c.Stream], lateSpan(c))
		case c.Type == change.ControlGap && c.Gap != nil:
			all.addGap(c.Gap)
		}
		return nil
	})
	return all, err
}

// HappenedSince returns since when the changes that were logged since a time may have happened. Zero stands for all times.
func HappenedSince(coverage []Coverage, logged time.Time) time.Time {
	unread := LateAmong(coverage)
	for i := range coverage {
		c := &coverage[i]
		unread.spans[c.Stream] = append(slices.Clone(c.lates), c.unread...)
	}
	return unread.Since(logged)
}
