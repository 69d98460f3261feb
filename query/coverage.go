package query

import (
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Coverage says how far an answer about one stream is complete.
type Coverage struct {
	Stream change.StreamID `json:"stream"`
	// Since, UpTo: within these the log has every change, but for what Missing names.
	Since change.ResourceVersion `json:"completeSince"`
	UpTo  change.ResourceVersion `json:"completeUpTo"`
	// At is the resourceVersion that was asked about, or that the time stands for.
	At     change.ResourceVersion `json:"resourceVersion,omitempty"`
	AtTime time.Time              `json:"watermark,omitzero"` // of the last position by then; zero if At was asked about
	Known  time.Time              `json:"-"`                  // of the last position by then, whatever was asked about
	// SinceTime is when the log had Since.
	SinceTime time.Time `json:"completeSinceTime,omitzero"`
	Missing   []string  `json:"missing,omitempty"`
	Gaps      []GapTime `json:"gaps,omitempty"` // of all that Missing names, those that are gaps
	// Unserved: the CRD of the resource did not exist then, so nothing of it did.
	Unserved bool `json:"unserved,omitempty"`
	Unlisted bool `json:"unlisted,omitempty"` // no list of it ended by then

	unlisted string // says so; else empty
}

// GapTime is when changes happened that may be missing.
type GapTime struct {
	From   time.Time `json:"from,omitzero"` // zero: not known
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

func (c *Coverage) lacks(format string, args ...any) {
	c.Missing = append(c.Missing, string(c.Stream)+": "+fmt.Sprintf(format, args...))
}

// eraOf is the era of the target, and whether another one follows it. It is nil if the target is before all of them.
func (s *stories) eraOf(st *story) (of *era, ended bool) {
	for _, e := range st.eras {
		begun := e.start() != "" && e.start().Compare(s.target.Version) <= 0
		if s.target.Version == "" {
			begun = st.at.Version != "" && e.first.Version != "" && e.first.n <= st.at.n
		}
		if begun || of == nil && e.start() != "" {
			of = e
		} else if of != nil {
			ended = true
		}
	}
	return of, ended
}

// since returns from where on the log has every change of an era.
func (s *stories) since(st *story, e *era) (change.ResourceVersion, time.Time) {
	kept := st.kept
	if kept.Version == "" {
		kept = e.first
	}
	if s.kept[change.ResourceOf(st.stream).ID()].Since.IsZero() || kept.Version.Compare(e.start()) <= 0 {
		return e.start(), e.first.Time
	}
	return kept.Version, kept.Time
}

// coverage tells how far the answer is complete for one stream.
func (s *stories) coverage(st *story) Coverage {
	c := Coverage{Stream: st.stream, At: s.target.Version}
	c.Known = st.base.Time
	if c.At == "" {
		c.At, c.AtTime, c.Known = st.at.Version, st.at.Time, st.at.Time
	}
	if lost := s.kept[change.ResourceOf(st.stream).ID()].Lost; lost != "" {
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
	s.reaches(&c, st, e, ended)
	for _, g := range st.gaps {
		if g.Lost() && !g.passes(c.At) && g.To.Compare(c.Since) > 0 {
			c.Since, c.SinceTime = g.To, g.until // what was lost was older
		}
		if s.target.Happened.IsZero() && g.From.Compare(c.At) < 0 && g.passes(c.At) {
			c.lacks("%s", g.lacks())
			c.Gaps = append(c.Gaps, g.times())
		}
	}
	if !s.target.Happened.IsZero() && st.back.Version != "" {
		c.lacks("the API server's history went back at %s, so its resourceVersions stand for two states: ask by --clock logged",
			st.back.Time.UTC().Format(time.RFC3339))
	}
	return c
}

func (g *gap) times() GapTime { return GapTime{g.since, g.until, g.Reason} }

func (g *gap) lacks() string {
	return fmt.Sprintf("changes of the gap between resourceVersions %s and %s may be missing: %s", g.From, g.To, g.Reason)
}

// reaches says whether the moment is after the last position of its era.
func (s *stories) reaches(c *Coverage, st *story, e *era, ended bool) {
	after, t := ended, s.target
	switch {
	case t.Version != "":
		after = t.Version.Compare(e.last.Version) > 0
	case !t.Happened.IsZero():
		after = t.Happened.After(e.last.current)
	case !t.Logged.IsZero():
		after, ended = t.Logged.Truncate(time.Millisecond).After(s.ends) || ended && s.reached(e.last), false
	}
	gone := !e.removed.IsZero() && !t.Happened.IsZero() && !t.Happened.Before(e.removed)
	switch {
	case after && ended:
		c.lacks("the log is complete up to resourceVersion %s (%s), and then begins anew with another first list: nothing tells what "+
			"happened in between", c.UpTo, e.last.Time.UTC().Format(time.RFC3339))
	case after && !gone:
		c.lacks("the log is complete up to resourceVersion %s (%s), and what followed is not in it",
			c.UpTo, e.last.Time.UTC().Format(time.RFC3339))
	}
}

// when says in which era a change was logged: -1 before that of the target, 0 in it, 1 after it.
func (s *stories) when(st *story, l *sinks.Logged) int {
	if st == nil || len(st.eras) < 2 {
		return 0
	}
	of, _ := s.eraOf(st)
	i := slices.Index(st.eras, of)
	switch {
	case i < 0:
		return 0
	case i > 0 && of.begin.has(l):
		return -1
	case i+1 < len(st.eras) && !st.eras[i+1].begin.has(l):
		return 1
	}
	return 0
}
