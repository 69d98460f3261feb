package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Mark is a position of a stream.
type Mark struct {
	Version change.ResourceVersion
	Time    time.Time // of the event, bookmark or list that confirmed it
	Logged  time.Time
}

// story is what the control records tell of one stream.
type story struct {
	stream      change.StreamID
	first, last Mark
	listed      change.ResourceVersion // of the end of the first list; empty: the record is not kept
	gaps        []change.Gap           // that were not recovered whole
	removed     bool                   // by the last record about its end
	kept        Mark                   // the last one before everything that was logged is kept
	at          Mark                   // the last one by the target
}

// stories reads the control records about some resources.
type stories struct {
	resources []string // empty: all
	target    Target
	kept      map[string]time.Time // by resource: since when every change is kept
	streams   map[change.StreamID]*story
}

func readStories(ctx context.Context, r sinks.Reader, resources []string, target Target) (*stories, error) {
	s := &stories{resources: resources, target: target, kept: map[string]time.Time{}, streams: map[change.StreamID]*story{}}
	known, err := r.Resources(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range known {
		if s.selects(id) {
			if s.kept[id], err = r.KeptSince(ctx, id); err != nil {
				return nil, fmt.Errorf("find out since when every change of %s is kept: %w", id, err)
			}
		}
	}
	if err := r.Controls(ctx, time.Time{}, s.control); err != nil {
		return nil, err
	}
	for _, id := range resources {
		_, found := s.kept[id]
		for stream := range s.streams {
			found = found || change.ResourceOf(stream).ID() == id
		}
		if !found {
			return nil, &NoResourceError{Resource: id, Known: known}
		}
	}
	return s, nil
}

// resolve finds out when the batch of a target was logged.
func resolve(ctx context.Context, r sinks.Reader, t Target) (Target, error) {
	if t.Batch == nil {
		return t, nil
	}
	var at Target
	err := r.Controls(ctx, time.Time{}, func(c *change.Control) error {
		if c.Type != change.ControlBatch || c.Slot != t.Batch.Slot || c.Batch != t.Batch.Number {
			return nil
		}
		at.Logged = time.UnixMilli(c.TimeMs).Add(time.Millisecond - 1) // the record has whole milliseconds
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) {
		return t, err
	}
	if at.Logged.IsZero() {
		return t, fmt.Errorf("its batch is not in the log, or the record of it is not kept any more: %w", sinks.ErrNotKept)
	}
	return at, nil
}

func (s *stories) selects(resource string) bool {
	return len(s.resources) == 0 || slices.Contains(s.resources, resource)
}

func (s *stories) control(c *change.Control) error {
	if c.Type == change.ControlBatch {
		logged := time.UnixMilli(c.TimeMs)
		for _, p := range c.Positions {
			s.position(p, logged)
		}
		return nil
	}
	if c.Stream == "" || !s.selects(change.ResourceOf(c.Stream).ID()) {
		return nil
	}
	st := s.stream(c.Stream)
	switch c.Type {
	case change.ControlSnapshotEnd:
		if st.listed == "" {
			st.listed = c.ResourceVersion
		}
	case change.ControlGap:
		if c.Gap != nil && !c.Gap.Complete {
			st.gaps = append(st.gaps, *c.Gap)
		}
	}
	return nil
}

// position notes a position. Those of one slot come in order; a stream that moved to another slot goes on there.
func (s *stories) position(p change.Position, logged time.Time) {
	resource := change.ResourceOf(p.Stream).ID()
	if p.ResourceVersion == "" || p.ResourceVersion == change.UnknownVersion || !s.selects(resource) {
		return
	}
	st, m := s.stream(p.Stream), Mark{p.ResourceVersion, p.Time, logged}
	if st.first.Version == "" || logged.Before(st.first.Logged) {
		st.first = m
	}
	replace := func(old *Mark) {
		if old.Version == "" || !logged.Before(old.Logged) {
			*old = m
		}
	}
	if replace(&st.last); st.last == m {
		st.removed = p.Ended == change.EndedRemoved
	}
	if !logged.After(s.kept[resource]) {
		replace(&st.kept)
	}
	t := s.target
	if t == (Target{}) || !t.Happened.IsZero() && !p.Time.After(t.Happened) || !t.Logged.IsZero() && !logged.After(t.Logged) {
		replace(&st.at)
	}
}

func (s *stories) stream(id change.StreamID) *story {
	if s.streams[id] == nil {
		s.streams[id] = &story{stream: id}
	}
	return s.streams[id]
}

// Coverage says how far an answer about one stream is complete.
type Coverage struct {
	Stream change.StreamID `json:"stream"`
	// Since, UpTo: within these the log has every change, but for what Missing names.
	Since change.ResourceVersion `json:"completeSince"`
	UpTo  change.ResourceVersion `json:"completeUpTo"`
	// At is the resourceVersion that was asked about, or that the time stands for.
	At      change.ResourceVersion `json:"resourceVersion,omitempty"`
	AtTime  time.Time              `json:"watermark,omitzero"` // when At was confirmed; zero if At was asked about
	Missing []string               `json:"missing,omitempty"`
}

// since is from where on the log has every change of the stream.
func (s *stories) since(st *story) change.ResourceVersion {
	since := cmp.Or(st.listed, st.first.Version)
	if s.kept[change.ResourceOf(st.stream).ID()].IsZero() {
		return since
	}
	if kept := cmp.Or(st.kept.Version, st.first.Version); kept.Compare(since) > 0 {
		return kept
	}
	return since
}

// coverage tells how far the answer is complete for one stream.
func (s *stories) coverage(st *story) Coverage {
	c := Coverage{Stream: st.stream, Since: s.since(st), UpTo: st.last.Version, At: s.target.Version}
	missing := func(format string, args ...any) {
		c.Missing = append(c.Missing, string(st.stream)+": "+fmt.Sprintf(format, args...))
	}
	if c.At == "" {
		c.At, c.AtTime = st.at.Version, st.at.Time
	}
	switch {
	case c.UpTo == "" || c.At == "":
		missing("the log has no complete list of it by then")
		return c
	case c.At.Compare(c.Since) < 0:
		missing("the log has every change since resourceVersion %s, and lacks older ones: objects that existed at %s may be absent, or "+
			"older than they were", c.Since, c.At)
	case c.At.Compare(c.UpTo) > 0 && !st.removed:
		missing("the log is complete up to resourceVersion %s (%s), and what followed is not in it",
			c.UpTo, st.last.Time.UTC().Format(time.RFC3339))
	}
	for _, g := range st.gaps {
		if g.From.Compare(c.At) < 0 && c.At.Compare(g.To) < 0 {
			missing("changes of the gap between resourceVersions %s and %s may be missing: %s", g.From, g.To, g.Reason)
		}
	}
	return c
}

// nothing says that the log has no stream that could answer: that it has no objects proves nothing.
func (s *stories) nothing(namespace string) string {
	text := "the log has no stream of " + cmp.Or(strings.Join(s.resources, ", "), "any resource")
	if namespace != "" {
		text += " in namespace " + namespace
	}
	return text + ": they were not exported"
}

// IncompleteError says that an answer would lack something.
type IncompleteError struct{ Missing []string }

func (e *IncompleteError) Error() string {
	text := "the log does not have all of it:"
	for i, m := range e.Missing {
		if i == 20 {
			return text + fmt.Sprintf("\n  and %d more", len(e.Missing)-i)
		}
		text += "\n  " + m
	}
	return text
}

// NoResourceError says that the log has nothing of a resource.
type NoResourceError struct {
	Resource string
	Known    []string
}

func (e *NoResourceError) Error() string {
	return fmt.Sprintf("the log has no changes of %s: it has %s", e.Resource, strings.Join(e.Known, ", "))
}

// errStop ends a reading early.
var errStop = errors.New("enough was read")
