package timeline

import (
	"context"
	"fmt"
	"maps"
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
	At change.ResourceVersion `json:"resourceVersion,omitempty"`
	// time of the last position by then, or zero if the question is a version
	AtTime time.Time `json:"watermark,omitzero"`
	Known  time.Time `json:"-"` // time of the last position by then, for each kind of question
	End    time.Time `json:"-"` // time of the last position of all, or zero if the resource is gone
	// SinceTime is when the log reached Since.
	SinceTime time.Time `json:"completeSinceTime,omitzero"`
	Missing   []string  `json:"missing,omitempty"`
	Gaps      []GapTime `json:"gaps,omitempty"` // the gaps that Missing names
	// Unserved means that the CRD of the resource did not exist then, so no object of it did.
	Unserved bool      `json:"unserved,omitempty"`
	Unlisted bool      `json:"unlisted,omitempty"` // the stream had no complete list by then
	Listed   time.Time `json:"-"`                  // when the first list of an unlisted stream ended
	Restores int       `json:"-"`                  // how often etcd was restored from a backup, as far as the log has it

	WhyUnlisted string `json:"-"` // why the stream is unlisted; else empty
	lates       []span
	unread      []span // only Covered has it
	owners      *owners
	gaps        []*change.Gap // for the complete stream. Only Covered sets these
}

// staleAfter is how long the log may have nothing new of a resource before its end counts as past. A running exporter says each
// minute how far it has all (KUBECDC_WATERMARK_INTERVAL).
const staleAfter = 2 * time.Minute

// IsStale reports whether a log that has all up to a time does not tell of a later one.
func IsStale(upTo, asked time.Time) bool { return !upTo.IsZero() && asked.Sub(upTo) > staleAfter }

// GapTime is a time whose changes may be missing.
type GapTime struct {
	From   time.Time `json:"from,omitzero"` // zero: not known
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

// Span is a time of which the log tells less than of others.
type Span struct {
	GapTime
	Kind SpanKind
}

// SpanKind says what a log lacks of a span.
type SpanKind string

const (
	SpanMissing SpanKind = "missing" // changes may be missing
	SpanLate    SpanKind = "late"    // changes were seen late, so their times may be
	SpanUnread  SpanKind = "unread"  // nobody read the stream, which caught up afterwards
)

// Spans returns the spans of a stream. It needs the coverage of Covered.
func (c *Coverage) Spans() (all []Span) {
	for _, g := range c.Gaps {
		all = append(all, Span{g, SpanMissing})
	}
	for kind, spans := range map[SpanKind][]span{SpanLate: c.lates, SpanUnread: c.unread} {
		for _, s := range spans {
			all = append(all, Span{GapTime{From: s.from, To: s.to}, kind})
		}
	}
	return all
}

func (c *Coverage) lacks(format string, args ...any) {
	c.Missing = append(c.Missing, string(c.Stream)+": "+fmt.Sprintf(format, args...))
}

// since returns the version, and its time, from which on the log has every change of an era.
func (*Set) since(st *Timeline, e *era) (change.ResourceVersion, time.Time) {
	oldest := st.retained
	if oldest.Version == "" || e.first.Version == "" || oldest.n <= e.first.n {
		return e.start(), e.first.Time
	}
	return oldest.Version, oldest.Time
}

// coverage returns within which versions the answer is complete for one stream.
func (s *Set) coverage(st *Timeline) Coverage {
	c := Coverage{Stream: st.Stream, At: s.target.Version, Restores: st.restores(), lates: st.delays.lates}
	c.Known = st.beforeTarget.Time
	if st.currentEra().removed.IsZero() {
		c.End = st.last.Time
	}
	if c.At == "" {
		c.At, c.AtTime, c.Known = st.atTarget.Version, st.atTarget.Time, st.atTarget.Time
	}
	if lost := s.retained[change.ResourceOf(st.Stream).ID()].Lost; lost != "" {
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
			c.Listed = st.eras[0].first.Time
			since = ": the first one ended at " + c.Listed.UTC().Format(time.RFC3339)
		}
		c.WhyUnlisted = string(c.Stream) + ": the log has no complete list of it by then" + since
		c.Unlisted = true
		return c
	}
	if c.At.Compare(c.Since) < 0 || st.retained.Version != "" && st.retained.n > e.last.n {
		c.lacks("the log has every change since resourceVersion %s, and lacks older ones: objects that existed at %s may be "+
			"absent, or "+
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
func (s *Set) checkEnd(c *Coverage, st *Timeline, e *era, ended bool) {
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

// Cover returns within which versions an answer is complete. It returns a TwoStatesError if the moment is a version that stands
// for two states.
func (s *Set) Cover(namespace string) (all []Coverage, err error) {
	s.versions = map[change.StreamID]change.ResourceVersion{}
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		if ns := change.ParseStream(id).Namespace; ns != "" && namespace != "" && ns != namespace {
			continue
		}
		if err := s.checkUnique(s.streams[id]); err != nil {
			return nil, err
		}
		c := s.coverage(s.streams[id])
		s.versions[id] = c.At
		all = append(all, c)
	}
	return all, nil
}

// Covered returns how far the log has every change of the objects, for each stream, and what may be missing there. It leaves out
// gaps that ended before a time.
func Covered(ctx context.Context, r sinks.Reader, objects *sinks.Objects, since time.Time) ([]Coverage, []string, error) {
	read := func(ctx context.Context, resources []string, end Target) (*Set, error) {
		return readSet(ctx, r, resources, end, nil)
	}
	return CoveredBy(ctx, read, objects, since)
}

// CoveredBy is Covered with a source.
func CoveredBy(ctx context.Context, source Source, objects *sinks.Objects, since time.Time) (all []Coverage, missing []string,
	err error) {
	s, err := source(ctx, objects.Resources, Target{})
	if err != nil {
		return nil, nil, err
	}
	if all, err = s.Cover(objects.Namespace); err != nil {
		return nil, nil, err
	}
	for i := range all {
		c, st := &all[i], s.streams[all[i].Stream]
		c.gaps, c.owners, c.unread = st.recorded, s.owners, st.delays.unread
		if c.WhyUnlisted != "" {
			c.Missing = append(c.Missing, c.WhyUnlisted)
		}
		missing = append(missing, c.Missing...)
		for _, g := range st.gaps {
			if g.open || !g.until.Before(since) {
				missing = append(missing, string(c.Stream)+": "+g.lacks())
				c.Gaps = append(c.Gaps, g.times())
			}
		}
	}
	if len(all) == 0 {
		missing = append(missing, s.NoStream(objects.Namespace))
	}
	return all, missing, nil
}
