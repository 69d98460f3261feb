package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Coverage says within which versions an answer about one stream is complete.
type Coverage struct {
	Stream change.StreamID `json:"stream"`
	// Between Since and UpTo the log has every change, except what Missing names.
	Since change.ResourceVersion `json:"completeSince"`
	UpTo  change.ResourceVersion `json:"completeUpTo"`
	// At is the resourceVersion in the question, or the one that the question's time stands for.
	At     change.ResourceVersion `json:"resourceVersion,omitempty"`
	AtTime time.Time              `json:"watermark,omitzero"` // time of the last position by then, or zero if the question is a version
	Known  time.Time              `json:"-"`                  // time of the last position by then, for each kind of question
	// SinceTime is when the log reached Since.
	SinceTime time.Time `json:"completeSinceTime,omitzero"`
	Missing   []string  `json:"missing,omitempty"`
	Gaps      []GapTime `json:"gaps,omitempty"` // the gaps that Missing names
	// Unserved means that the CRD of the resource did not exist then, so no object of it did.
	Unserved bool `json:"unserved,omitempty"`
	Unlisted bool `json:"unlisted,omitempty"` // the stream had no complete list by then
	Restores int  `json:"-"`                  // how often etcd was restored from a backup, as far as the log has it

	unlisted string // why the stream is unlisted; else empty
	lates    []span
	unread   []span // only Covered has it
	owners   *owners
	gaps     []*change.Gap // all of the stream: only Covered has them
}

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

// Skips reports whether the log may lack changes that were right before a recovered one. Where the log does not tell, it may.
func (s Late) Skips(l *sinks.Logged) bool { return l.Gap != "" && !s.complete[l.Gap] }

// Ignores reports whether the settings may have left out updates of a resource between a time and a change. known says that the log
// tells what they left out.
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

// Since returns since when changes that were seen since a time may have happened, by this clock or one that differs. Zero stands for all times.
func (s Late) Since(seen time.Time) time.Time {
	earliest := seen
	for _, spans := range s.spans {
		for _, late := range spans {
			if !late.to.Before(seen.Add(-margin)) && late.from.Before(earliest) {
				earliest = late.from
			}
		}
	}
	if earliest.Unix() < 0 { // it was never read before
		return time.Time{}
	}
	return earliest
}

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

// LateSince returns the same for the changes that were seen since a time. It reads only the control records from then on, and an hour of those
// before, since the log's clock may be another.
func LateSince(ctx context.Context, r sinks.Reader, seen time.Time) (Late, error) {
	all := newLate()
	err := r.Controls(ctx, seen.Add(-margin), func(*sinks.Span) bool { return false }, func(c *change.Control) error {
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

// GapTime is a time whose changes may be missing.
type GapTime struct {
	From   time.Time `json:"from,omitzero"` // zero: not known
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

func (c *Coverage) lacks(format string, args ...any) {
	c.Missing = append(c.Missing, string(c.Stream)+": "+fmt.Sprintf(format, args...))
}

// eraOf returns the era of the target, and whether another era follows. The era is nil if the target is before all eras.
func (s *timelines) eraOf(st *timeline) (found *era, ended bool) {
	if all := s.erasOf(st); len(all) > 0 {
		return all[0], all[0] != st.eras[len(st.eras)-1]
	}
	for _, e := range st.eras {
		begun := e.start() != "" && e.start().Compare(s.target.Version) <= 0
		if s.target.Version == "" {
			begun = st.atTarget.Version != "" && e.first.Version != "" && e.first.n <= st.atTarget.n
		}
		if begun || found == nil && e.start() != "" {
			found = e
		} else if found != nil {
			ended = true
		}
	}
	return found, ended
}

// erasOf returns the eras that have the target's version. After a restore of etcd it may stand for a state in each.
func (s *timelines) erasOf(st *timeline) (all []*era) {
	for i, e := range st.eras {
		if s.target.Version != "" && e.has(s.target.Version, i == len(st.eras)-1) {
			all = append(all, e)
		}
	}
	return all
}

// checkUnique returns a TwoStatesError if the target's version stands for two states of a stream.
func (s *timelines) checkUnique(st *timeline) error {
	if all := s.erasOf(st); len(all) > 1 {
		e := &TwoStatesError{Stream: st.stream, Version: s.target.Version}
		for _, era := range all {
			e.Times = append(e.Times, era.reached)
		}
		return e
	}
	return nil
}

// since returns the version, and its time, from which on the log has every change of an era.
func (*timelines) since(st *timeline, e *era) (change.ResourceVersion, time.Time) {
	oldest := st.retained
	if oldest.Version == "" || e.first.Version == "" || oldest.n <= e.first.n {
		return e.start(), e.first.Time
	}
	return oldest.Version, oldest.Time
}

// coverage returns within which versions the answer is complete for one stream.
func (s *timelines) coverage(st *timeline) Coverage {
	c := Coverage{Stream: st.stream, At: s.target.Version, Restores: st.restores(), lates: st.delays.lates}
	c.Known = st.beforeTarget.Time
	if c.At == "" {
		c.At, c.AtTime, c.Known = st.atTarget.Version, st.atTarget.Time, st.atTarget.Time
	}
	if lost := s.retained[change.ResourceOf(st.stream).ID()].Lost; lost != "" {
		c.lacks("%s", lost)
	}
	e, ended := s.eraOf(st)
	if e != nil {
		c.UpTo = e.last.Version
		c.Since, c.SinceTime = s.since(st, e)
	}
	if c.UpTo == "" || c.At == "" {
		since := ""
		if len(st.eras) > 0 && st.eras[0].first.Version != "" {
			since = ": the first one ended at " + st.eras[0].first.Time.UTC().Format(time.RFC3339)
		}
		c.unlisted = string(c.Stream) + ": the log has no complete list of it by then" + since
		c.Unlisted = true
		return c
	}
	if c.At.Compare(c.Since) < 0 || st.retained.Version != "" && st.retained.n > e.last.n {
		c.lacks("the log has every change since resourceVersion %s, and lacks older ones: objects that existed at %s may be absent, or "+
			"older than they were", c.Since, c.At)
	}
	s.checkEnd(&c, st, e, ended)
	for _, g := range st.gapsOf(e) {
		if g.Lost() && !g.endsAfter(c.At) && g.To.Compare(c.Since) > 0 {
			c.Since, c.SinceTime = g.To, g.until // the lost changes were older
		}
		if s.target.Happened.IsZero() && g.From.Compare(c.At) < 0 && g.endsAfter(c.At) {
			c.lacks("%s", g.lacks())
			c.Gaps = append(c.Gaps, g.times())
		}
	}
	return c
}

func (g *gap) times() GapTime { return GapTime{g.since, g.until, g.Reason} }

func (g *gap) lacks() string {
	return fmt.Sprintf("changes of the gap between resourceVersions %s and %s may be missing: %s", g.From, g.To, g.Reason)
}

// checkEnd adds to what the answer lacks if the target is after the last position of its era.
func (s *timelines) checkEnd(c *Coverage, st *timeline, e *era, ended bool) {
	after, t := ended, s.target
	switch {
	case t.Version != "":
		after = t.Version.Compare(e.last.Version) > 0
	case !t.Happened.IsZero():
		after = t.Happened.After(e.last.current)
	case !t.Logged.IsZero():
		after, ended = t.Logged.Truncate(time.Millisecond).After(s.ends) || ended && s.hasReached(e.last), false
	}
	gone := !e.removed.IsZero() && !t.Happened.IsZero() && !t.Happened.Before(e.removed)
	switch {
	case after && ended:
		next := "begins again with another first list"
		if st.eras[slices.Index(st.eras, e)+1].inherits {
			next = "has another history, since then etcd was restored from a backup"
		}
		c.lacks("the log is complete up to resourceVersion %s (%s), and then %s: it is unknown what happened in between",
			c.UpTo, e.last.Time.UTC().Format(time.RFC3339), next)
	case after && !gone:
		c.lacks("the log is complete up to resourceVersion %s (%s), and lacks what followed",
			c.UpTo, e.last.Time.UTC().Format(time.RFC3339))
	}
}

// compareEra compares the era in which a change was logged with the target's era: negative before, 0 same, positive after.
// inherits reports whether the later one of both has the objects of the earlier one.
func (s *timelines) compareEra(st *timeline, l *sinks.Logged) (n int, inherits bool) {
	if st == nil || len(st.eras) < 2 {
		return 0, true
	}
	target, _ := s.eraOf(st)
	own, i := len(st.eras)-1, slices.Index(st.eras, target)
	if i < 0 {
		return 0, true
	}
	for own > 0 && st.eras[own].begin.has(l) {
		own--
	}
	return own - i, !slices.ContainsFunc(st.eras[min(own, i)+1:max(own, i)+1], func(e *era) bool { return !e.inherits })
}

// checkBackups returns a TwoStatesError unless the target's version is certainly not newer than the backups from which later eras
// began. Up to a backup, both histories are the same. It is not older than an object that the era's list did not change.
func (f *stateReader) checkBackups(ctx context.Context, r sinks.Reader, all controls, covered []Coverage) error {
	for i := range covered {
		st := f.timelines.streams[covered[i].Stream]
		found := f.timelines.erasOf(st)
		if len(found) == 0 {
			continue
		}
		for _, e := range st.eras[slices.Index(st.eras, found[0])+1:] {
			if !e.inherits {
				continue
			}
			q := Question{Objects: sinks.Objects{Resources: []string{change.ResourceOf(st.stream).ID()}}}
			// The record has milliseconds.
			then, err := readStates(ctx, r, all, q, Target{Logged: e.first.Logged.Add(time.Millisecond - 1)})
			if err != nil {
				return err
			}
			if then[0].newestInherited().Compare(f.timelines.target.Version) < 0 {
				return &TwoStatesError{st.stream, f.timelines.target.Version, []time.Time{found[0].reached, e.first.Time}}
			}
		}
	}
	return nil
}

// newestInherited returns the newest version of the objects that an era inherited and its list did not change.
func (s *State) newestInherited() (newest change.ResourceVersion) {
	for _, o := range s.objects {
		if len(s.Missing) == 0 && o.live() != nil && o.inherited && o.version.Compare(newest) > 0 {
			newest = o.version
		}
	}
	return newest
}
