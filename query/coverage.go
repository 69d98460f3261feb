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

	unlisted string // why the stream is unlisted; else empty
	lates    []span
	unread   []span // only Covered has it
}

// Late is the times in which streams were read late.
type Late map[change.StreamID][]span

// Has reports whether a change may have happened long before it was seen, since nobody read its stream then.
func (s Late) Has(l *sinks.Logged) bool {
	return slices.ContainsFunc(s[l.Stream.ID()], func(s span) bool { return l.Time.After(s.from) && !l.Time.After(s.to) })
}

// Since returns since when changes that were seen since a time may have happened, by this clock or one that differs. Zero stands for all times.
func (s Late) Since(seen time.Time) time.Time {
	earliest := seen
	for _, spans := range s {
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

// LateAmong returns when these streams were read late.
func LateAmong(coverage []Coverage) Late {
	all := Late{}
	for i := range coverage {
		all[coverage[i].Stream] = coverage[i].lates
	}
	return all
}

// LateSince returns the same for the changes that were seen since a time. It reads only the control records from then on, and an hour of those
// before, since the log's clock may be another.
func LateSince(ctx context.Context, r sinks.Reader, seen time.Time) (Late, error) {
	all := Late{}
	err := r.Controls(ctx, seen.Add(-margin), func(*sinks.Span) bool { return false }, func(c *change.Control) error {
		if c.Type == change.ControlBehind {
			all[c.Stream] = append(all[c.Stream], lateSpan(c))
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
		unread[c.Stream] = append(slices.Clone(c.lates), c.unread...)
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

// since returns the version, and its time, from which on the log has every change of an era.
func (s *timelines) since(st *timeline, e *era) (change.ResourceVersion, time.Time) {
	oldest := st.retained
	if oldest.Version == "" {
		oldest = e.first
	}
	if s.retained[change.ResourceOf(st.stream).ID()].Since.IsZero() || oldest.Version.Compare(e.start()) <= 0 {
		return e.start(), e.first.Time
	}
	return oldest.Version, oldest.Time
}

// coverage returns within which versions the answer is complete for one stream.
func (s *timelines) coverage(st *timeline) Coverage {
	c := Coverage{Stream: st.stream, At: s.target.Version, lates: st.delays.lates}
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
	if c.At.Compare(c.Since) < 0 {
		c.lacks("the log has every change since resourceVersion %s, and lacks older ones: objects that existed at %s may be absent, or "+
			"older than they were", c.Since, c.At)
	}
	s.checkEnd(&c, st, e, ended)
	for _, g := range st.gaps {
		if g.Lost() && !g.endsAfter(c.At) && g.To.Compare(c.Since) > 0 {
			c.Since, c.SinceTime = g.To, g.until // the lost changes were older
		}
		if s.target.Happened.IsZero() && g.From.Compare(c.At) < 0 && g.endsAfter(c.At) {
			c.lacks("%s", g.lacks())
			c.Gaps = append(c.Gaps, g.times())
		}
	}
	if !s.target.Happened.IsZero() && st.regressed.Version != "" {
		c.lacks("the API server's history went back at %s, so its resourceVersions stand for two states: ask by --clock logged",
			st.regressed.Time.UTC().Format(time.RFC3339))
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
		c.lacks("the log is complete up to resourceVersion %s (%s), and then begins again with another first list: it is unknown "+
			"what happened in between", c.UpTo, e.last.Time.UTC().Format(time.RFC3339))
	case after && !gone:
		c.lacks("the log is complete up to resourceVersion %s (%s), and lacks what followed",
			c.UpTo, e.last.Time.UTC().Format(time.RFC3339))
	}
}

// compareEra compares the era in which a change was logged with the target's era: -1 before, 0 same, 1 after.
func (s *timelines) compareEra(st *timeline, l *sinks.Logged) int {
	if st == nil || len(st.eras) < 2 {
		return 0
	}
	target, _ := s.eraOf(st)
	i := slices.Index(st.eras, target)
	switch {
	case i < 0:
		return 0
	case i > 0 && target.begin.has(l):
		return -1
	case i+1 < len(st.eras) && !st.eras[i+1].begin.has(l):
		return 1
	}
	return 0
}
