package timeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// The state of a stream at a time is the state at its last version by then. If the stream was read at that time, its positions
// have that version. Changes that were read later, after an outage or a pause, carry their own time. Deletions, and updates that
// move no time in the object, do not. If their versions are between two changes with a time before and after, the answer is
// unknown.

// dater finds the version of one stream that a time stands for.
type dater struct {
	timeline  *Timeline
	position  change.ResourceVersion // the last one by t
	gaps      []gap                  // the gaps of the time's era
	t, seenBy time.Time              // seenBy: the stream had read by then what happened by t
	horizon   time.Time              // changes that were seen after it are no evidence about t
	changes   []dated                // after the position
	older     []dated                // the span before t, from the time to which t may be moved back
}

// dated is a change and what is known of its time.
type dated struct {
	version  change.ResourceVersion
	op       change.Op
	key      string
	seen     time.Time
	happened time.Time // the second in which it happened; zero: not known
	asked    bool      // its object is asked for
}

// hindsight is how long changes are still checked for an earlier time after a stream has caught up.
const hindsight = 10 * time.Minute

// Date finds the version of each stream if the target is a time on the cluster's clock. It adds to the coverage what may be
// missing.
func (s *Set) Date(ctx context.Context, r sinks.Reader, q *sinks.Objects, covered []Coverage) error {
	t := s.target.Happened
	if t.IsZero() {
		return nil
	}
	var first Mark // the earliest of the streams' last positions by the time
	s.daters = map[change.StreamID]*dater{}
	for i := range covered {
		st := s.streams[covered[i].Stream]
		if st.atTarget.Version == "" {
			continue
		}
		e, _ := s.eraOf(st)
		seenBy, since := s.seenBy(st, t), st.atTarget
		s.daters[st.Stream] = &dater{timeline: st, position: since.Version, gaps: st.gapsOf(e), t: t, seenBy: seenBy,
			horizon: seenBy.Add(hindsight)}
		if s.target.Back > 0 {
			since = later(st.earliest, e.first)
		}
		if (st.afterTarget.Version != "" || s.target.Back > 0) && (first.Version == "" || since.n < first.n) {
			first = since
		}
	}
	if first.Version != "" { // else there are no later changes
		if err := s.readLater(ctx, r, q, s.TimeBefore(first)); err != nil {
			return err
		}
	}
	for i := range covered {
		c := &covered[i]
		if d := s.daters[c.Stream]; d != nil {
			d.decide(c)
			s.versions[c.Stream] = c.At
		}
	}
	return nil
}

// readLater reads the changes after the streams' last positions by the time.
func (s *Set) readLater(ctx context.Context, r sinks.Reader, q *sinks.Objects, since time.Time) error {
	query := sinks.Query{Resources: q.Resources, Namespace: q.Namespace, Wanted: func(l *sinks.Logged) bool {
		d := s.daters[l.Stream.ID()]
		if d == nil {
			return false
		}
		era, _ := s.CompareEra(d.timeline, l)
		return !(l.Inferred && l.Op == change.Delete) && era == 0 && !l.Time.After(d.horizon) &&
			(l.ResourceVersion.Compare(d.position) > 0 || s.target.Back > 0)
	}}
	if cut, err := r.CutAt(ctx, since); err == nil {
		query.After = &cut
	} else if !errors.Is(err, sinks.ErrNotRetained) {
		return err
	}
	if err := s.limit(ctx, r, since, &query); err != nil {
		return err
	}
	visit := func(l *sinks.Logged) error {
		d := s.daters[l.Stream.ID()]
		c, changes := dated{l.ResourceVersion, l.Op, l.Change.Key(), l.Time, timeOf(l), q.Has(l)}, &d.changes
		if c.version.Compare(d.position) <= 0 {
			changes = &d.older
		}
		*changes = append(*changes, c)
		return nil
	}
	err := r.Changes(ctx, query, visit)
	if errors.Is(err, sinks.ErrNotRetained) && query.After != nil {
		query.After = nil
		for _, d := range s.daters { // some changes may have been read before they were pruned
			d.changes, d.older = nil, nil
		}
		err = r.Changes(ctx, query, visit)
	}
	return err
}

// limit ends a query where each stream has a position after its horizon, or its last position. Changes that were logged later
// were seen after the horizon.
func (s *Set) limit(ctx context.Context, r sinks.Reader, since time.Time, query *sinks.Query) error {
	if !r.FindsObjects() { // it reads to its end anyway
		return nil
	}
	waiting, end := maps.Clone(s.daters), time.Time{}
	maps.DeleteFunc(waiting, func(_ change.StreamID, d *dater) bool { return d.timeline.afterTarget.Version == "" })
	err := r.Controls(ctx, since, nil, func(c *change.Control) error {
		if logged := time.UnixMilli(c.TimeMs); logged.After(end) {
			end = logged
		}
		if c.Type != change.ControlBatch {
			return nil
		}
		for _, p := range c.Positions {
			if d := waiting[p.Stream]; d != nil && p.Time.After(d.horizon) {
				delete(waiting, p.Stream)
			}
		}
		maps.DeleteFunc(waiting, func(_ change.StreamID, d *dater) bool {
			last := &d.timeline.last
			return c.Slot == last.slot && c.Batch >= last.batch
		})
		if len(waiting) == 0 {
			return sinks.ErrEnough
		}
		return nil
	})
	if len(waiting) > 0 || !errors.Is(err, sinks.ErrEnough) {
		return err
	}
	cut, err := r.CutAt(ctx, end)
	query.To = &cut
	return err
}

// timeOf returns when a change happened, as the object records it, or zero if it does not. A deletion records only when it was
// requested. An object that was found in a list, or that a selector has just selected, records an earlier change.
func timeOf(l *sinks.Logged) time.Time {
	selected := l.Stream.LabelSelector != "" || l.Stream.FieldSelector != ""
	if l.Inferred || l.Op == change.Delete || l.Op == change.Read || l.Op == change.Create && selected {
		return time.Time{}
	}
	return l.Provenance.Time
}

// decide sets the version that the time stands for, and adds what may be missing.
func (d *dater) decide(c *Coverage) {
	version, next, unsure := d.divide()
	for _, u := range unsure {
		c.lacks("%s was %s (resourceVersion %s) by %s, but the stream was read late, so it is unknown whether that was before "+
			"the time in question", u.key, u.op.Past(), u.version, u.seen.UTC().Format(time.RFC3339))
	}
	if next != "" && next.Compare(version) <= 0 {
		c.lacks("the times of the changes between resourceVersions %s and %s contradict their order", next, version)
	}
	for _, g := range d.gaps {
		if d.t.After(g.since) && g.From.Compare(d.position) <= 0 && g.endsAfter(version) {
			c.lacks("%s", g.lacks())
		}
	}
	if c.At != version {
		c.At, c.AtTime = version, d.t
	}
}

// divide returns the last version known to be before the time, and the first one known to be after it. unsure are the changes
// between them of objects that are asked for. If a change that was seen late is from before the time, the stream was behind then.
func (d *dater) divide() (last, next change.ResourceVersion, unsure []dated) {
	last = d.position
	for i := range d.changes {
		c := &d.changes[i]
		if d.orderOf(c) != Before {
			continue
		}
		if c.version.Compare(last) > 0 {
			last = c.version
		}
		if c.seen.After(d.seenBy) {
			d.seenBy = c.seen.Add(catchUp)
		}
	}
	for i := range d.changes {
		if c := &d.changes[i]; d.orderOf(c) == After && (next == "" || c.version.Compare(next) < 0) {
			next = c.version
		}
	}
	for _, c := range d.changes {
		if c.asked && d.orderOf(&c) == Unknown && c.version.Compare(last) > 0 && (next == "" || c.version.Compare(next) < 0) {
			unsure = append(unsure, c)
		}
	}
	return last, next, unsure
}

func (d *dater) orderOf(c *dated) When {
	switch {
	case !c.seen.After(d.t), !c.happened.IsZero() && !c.happened.Add(time.Second).After(d.t):
		return Before
	case !c.happened.IsZero() && !c.happened.Before(d.t), c.happened.IsZero() && c.seen.After(d.seenBy):
		return After
	}
	return Unknown
}

// MostBack is how far a time that was given as a duration may be moved back.
const MostBack = time.Minute

// Earlier moves a time to the last second before it at which the changes that were read are certain. It returns false if there is
// none.
func (s *Set) Earlier(t *Target) bool {
	for t.Back >= time.Second {
		if t.Happened, t.Back = t.Happened.Add(-time.Second), t.Back-time.Second; s.areCertainAt(t.Happened) {
			return true
		}
	}
	return false
}

func (s *Set) areCertainAt(t time.Time) bool {
	for _, d := range s.daters {
		e, _ := s.eraOf(d.timeline)
		if t.Before(e.first.Time) || e.removed.IsZero() && t.After(e.last.current) {
			return false
		}
		there, c := *d, Coverage{}
		there.t, there.seenBy, there.position = t, s.seenBy(d.timeline, t), later(d.timeline.earliest, e.first).Version
		there.changes = slices.Concat(d.older, d.changes)
		if there.decide(&c); len(c.Missing) > 0 {
			return false
		}
	}
	return true
}
