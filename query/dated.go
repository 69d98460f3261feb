package query

import (
	"context"
	"errors"
	"maps"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// A stream's state at a time is that of its last version by then. The positions tell it for what was seen when it happened. What
// was seen later, after an outage or a pause, tells itself when it happened, but for deletions and updates that move no time: their
// versions may stand between two that do. Otherwise the answer can't be known.

// dater finds the version of one stream that a time stands for.
type dater struct {
	story   *story
	t, by   time.Time // by: what happened by t was seen by then
	horizon time.Time // what is seen later tells nothing about t
	changes []dated   // after the last position by t
}

// dated is a change and what is known of its time.
type dated struct {
	version  change.ResourceVersion
	op       change.Op
	key      string
	seen     time.Time
	happened time.Time // a whole second in which it happened; zero: not known
}

// hindsight is for how long after a stream has caught up its changes are asked whether one is from before the time all the same.
const hindsight = 10 * time.Minute

// date finds the version of each stream, if the moment is a time at which things happened, and what the state may lack.
func (f *stateReader) date(ctx context.Context, r sinks.Reader, q Question, state *State) error {
	t := f.stories.target.Happened
	if t.IsZero() {
		return nil
	}
	var first Mark // of their last positions by the time
	daters := map[change.StreamID]*dater{}
	for i := range state.Coverage {
		st := f.stories.streams[state.Coverage[i].Stream]
		if st.at.Version == "" {
			continue
		}
		by := st.delays.seenBy(t)
		if silent := f.stories.pulses[st.at.slot].seenBy(t); silent.After(by) {
			by = silent
		}
		daters[st.stream] = &dater{story: st, t: t, by: by, horizon: by.Add(hindsight)}
		if st.beyond.Version != "" && (first.Version == "" || st.at.n < first.n) {
			first = st.at
		}
	}
	if first.Version != "" { // else nothing of them is later
		if err := f.later(ctx, r, q, f.stories.timeBefore(first), daters); err != nil {
			return err
		}
	}
	for i := range state.Coverage {
		c := &state.Coverage[i]
		if d := daters[c.Stream]; d != nil {
			d.decide(c)
			f.versions[c.Stream] = c.At
		}
	}
	return nil
}

// later reads the changes after the streams' last positions by the time.
func (f *stateReader) later(ctx context.Context, r sinks.Reader, q Question, since time.Time, daters map[change.StreamID]*dater) error {
	query := sinks.Query{Resources: q.Resources, Namespace: q.Namespace, Wanted: func(l *sinks.Logged) bool {
		d := daters[l.Stream.ID()]
		return d != nil && !(l.Inferred && l.Op == change.Delete) && f.stories.when(d.story, l) == 0 && !l.Time.After(d.horizon) &&
			l.ResourceVersion.Compare(d.story.at.Version) > 0
	}}
	if cut, err := r.At(ctx, since); err == nil {
		query.After = &cut
	} else if !errors.Is(err, sinks.ErrNotKept) {
		return err
	}
	if err := f.until(ctx, r, since, daters, &query); err != nil {
		return err
	}
	visit := func(l *sinks.Logged) error {
		d := daters[l.Stream.ID()]
		d.changes = append(d.changes, dated{l.ResourceVersion, l.Op, l.Change.Key(), l.Time, tells(l)})
		return nil
	}
	err := r.Changes(ctx, query, visit)
	if errors.Is(err, sinks.ErrNotKept) && query.After != nil {
		query.After = nil
		for _, d := range daters { // some may have been read before they were removed
			d.changes = nil
		}
		err = r.Changes(ctx, query, visit)
	}
	return err
}

// until ends a query where each stream has a position behind the horizon, or its last one: what is logged later was seen later.
func (f *stateReader) until(
	ctx context.Context, r sinks.Reader, since time.Time, daters map[change.StreamID]*dater, query *sinks.Query,
) error {
	if able, err := findsObjects(ctx, r); err != nil || !able { // it would read to its end all the same
		return err
	}
	waiting, end := maps.Clone(daters), time.Time{}
	maps.DeleteFunc(waiting, func(_ change.StreamID, d *dater) bool { return d.story.beyond.Version == "" })
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
			last := &d.story.last
			return c.Slot == last.slot && c.Batch >= last.batch
		})
		if len(waiting) == 0 {
			return errStop
		}
		return nil
	})
	if len(waiting) > 0 || !errors.Is(err, errStop) {
		return err
	}
	cut, err := r.At(ctx, end)
	query.To = &cut
	return err
}

// tells is when a change happened by its own account; zero: it does not tell. A deletion tells when it was asked for. An object
// that was found in a list, or that a selector selects only now, tells of an earlier change.
func tells(l *sinks.Logged) time.Time {
	selected := l.Stream.LabelSelector != "" || l.Stream.FieldSelector != ""
	if l.Inferred || l.Op == change.Delete || l.Op == change.Read || l.Op == change.Create && selected {
		return time.Time{}
	}
	return l.Provenance.Time
}

// decide sets the version that the time stands for, and what may be missing.
func (d *dater) decide(c *Coverage) {
	at, next, unsure := d.divide()
	for _, u := range unsure {
		c.lacks("%s was %s (resourceVersion %s) by %s, and the stream was not read, or was read late, before: nothing tells whether that was "+
			"by the time that is asked about", u.key, u.op.Past(), u.version, u.seen.UTC().Format(time.RFC3339))
	}
	if next != "" && next.Compare(at) <= 0 {
		c.lacks("the times of the changes between resourceVersions %s and %s contradict their order", next, at)
	}
	for _, g := range d.story.gaps {
		if d.t.After(g.since) && g.From.Compare(d.story.at.Version) <= 0 && g.passes(at) {
			c.lacks("%s", g.lacks())
		}
	}
	if c.At != at {
		c.At, c.AtTime = at, d.t
	}
}

// divide finds the last version that is known to be from before the time, the first one that is known to be from after it, and the
// changes between them. If a change that was seen late is from before, the stream was behind then.
func (d *dater) divide() (at, next change.ResourceVersion, unsure []dated) {
	at = d.story.at.Version
	for i := range d.changes {
		c := &d.changes[i]
		if d.order(c) != before {
			continue
		}
		if c.version.Compare(at) > 0 {
			at = c.version
		}
		if c.seen.After(d.by) {
			d.by = c.seen.Add(catchUp)
		}
	}
	for i := range d.changes {
		if c := &d.changes[i]; d.order(c) == after && (next == "" || c.version.Compare(next) < 0) {
			next = c.version
		}
	}
	for _, c := range d.changes {
		if d.order(&c) == unknown && c.version.Compare(at) > 0 && (next == "" || c.version.Compare(next) < 0) {
			unsure = append(unsure, c)
		}
	}
	return at, next, unsure
}

func (d *dater) order(c *dated) order {
	switch {
	case !c.seen.After(d.t), !c.happened.IsZero() && !c.happened.Add(time.Second).After(d.t):
		return before
	case !c.happened.IsZero() && !c.happened.Before(d.t), c.happened.IsZero() && c.seen.After(d.by):
		return after
	}
	return unknown
}
