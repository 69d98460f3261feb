package timeline

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// ShownTime returns the newest time that a position or a change up to the moment shows, so that the moment is not earlier. After
// an outage changes are seen late, but objects have their own times, and the stream's last live position is from before.
func (s *Set) ShownTime(ctx context.Context, r sinks.Reader, covered []Coverage) (shown time.Time, err error) {
	version, position := s.target.Version, s.SafePosition()
	spans := map[change.StreamID][]span{}
	know := func(t time.Time) {
		if t.After(shown) {
			shown = t
		}
	}
	for i := range covered {
		c := &covered[i]
		if version != "" {
			spans[c.Stream] = s.streams[c.Stream].delays.spans()
		}
		know(liveBy(spans[c.Stream], c.Known))
	}
	if version == "" || position.Version == "" || !r.FindsObjects() {
		return shown, nil
	}
	isLive := func(l *sinks.Logged) bool { return liveBy(spans[l.Stream.ID()], l.Time).Equal(l.Time) }
	hasLate, onlyLate := false, false
	q := sinks.Query{Resources: s.resources, NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		_, asked := spans[l.Stream.ID()]
		era, _ := s.CompareEra(s.streams[l.Stream.ID()], l)
		return asked && era == 0 && l.ResourceVersion.Compare(version) <= 0 && !(onlyLate && isLive(l))
	}}
	after, err := r.CutAt(ctx, s.TimeBefore(position))
	if err == nil {
		q.After = &after
		q.To, err = s.cutAfterTarget(ctx, r)
	}
	if err = UnlessPruned(err); err != nil {
		return shown, err
	}
	err = r.Changes(ctx, q, func(l *sinks.Logged) error {
		if hasLate = hasLate || !isLive(l); isLive(l) {
			know(l.Time)
		}
		return nil
	})
	if err != nil || !hasLate {
		return shown, UnlessPruned(err)
	}
	q.NoBodies, onlyLate = false, true // they have to show their own time
	err = r.Changes(ctx, q, func(l *sinks.Logged) error {
		if l.Op != change.Delete { // its time may be later than the deletion
			know(l.Provenance.Time)
		}
		return nil
	})
	return shown, UnlessPruned(err)
}

// UnlessPruned returns an error, unless it says that the log does not go back so far.
func UnlessPruned(err error) error {
	if errors.Is(err, sinks.ErrNotRetained) {
		return nil
	}
	return err
}

// cutAfterTarget returns the cut after which no change up to the target's version follows, or nil for the end.
func (s *Set) cutAfterTarget(ctx context.Context, r sinks.Reader) (*sinks.Cut, error) {
	var last Mark
	for _, st := range s.streams {
		if st.afterTarget.Version == "" {
			return nil, nil
		}
		last = later(last, st.afterTarget)
	}
	cut, err := r.CutAt(ctx, last.Logged)
	return &cut, err
}

// Current returns by when the log has all of each stream: the earliest of their last positions. It leaves out resources that were
// removed, and is zero if there are no others.
func (s *Set) Current() (upTo time.Time) {
	for _, st := range s.streams {
		if last := st.last; last.Version != "" && st.currentEra().removed.IsZero() && (upTo.IsZero() || last.Time.Before(upTo)) {
			upTo = last.Time
		}
	}
	return upTo
}

// Current returns by when the log has all of a resource, or zero if it was removed.
func (f *Follower) Current(ctx context.Context, resource string) (upTo time.Time, err error) {
	end, _, err := f.follow(ctx, []string{resource})
	if err != nil {
		return upTo, err
	}
	return end.Current(), nil
}
