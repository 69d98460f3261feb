package answer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/change/provenance"
	"kubecdc/incident"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// Span is what happened between two times.
type Span struct {
	Since string `json:"since,omitempty" jsonschema:"a time with its zone, or how long ago: 2026-11-22T10:53:56Z, 2h; by default 1h"`
	Until string `json:"until,omitempty" jsonschema:"a time with its zone, or how long ago; by default now"`
}

// Changed asks what happened.
type Changed struct {
	Place
	Span
	Page
	By      string `json:"by,omitempty" jsonschema:"only what this user did or may have done: alice, system:serviceaccount:shop:web"`
	Buckets int    `json:"-"` // into how many equal times the changes are counted
}

// Changes is what happened, by time.
type Changes struct {
	From         string   `json:"from"`
	Until        string   `json:"until"`
	Conclusion   string   `json:"conclusion"`
	Changes      []Change `json:"changes"`
	LeftOut      int      `json:"leftOut,omitempty" jsonschema:"changes of Leases, Events and heartbeats of Nodes, which are left out unless types names them"`
	AuthorsSince string   `json:"authorsSince,omitempty" jsonschema:"audit events, which tell who made a change, are there since then; none: managers name programs only"`
	AuthorsUntil string   `json:"authorsUntil,omitempty"`
	Complete     Complete `json:"complete"`
	Cursor       string   `json:"cursor,omitempty"`

	Density []Bucket  `json:"-"` // if Buckets were asked for
	Since   time.Time `json:"-"` // when the first bucket begins
	Unknown []Unknown `json:"-"` // what the log lacks of the span, by time
}

// Bucket counts all changes of a time, also those that other pages have.
type Bucket struct{ Created, Updated, Deleted, Recovered int }

// Unknown is a time of which the log lacks something.
type Unknown struct {
	timeline.Span
	Stream change.StreamID
}

func (a *Changes) Summary() string { return a.Conclusion }

// Change is a change, or several that are counted.
type Change struct {
	Time      string         `json:"time,omitempty"`
	Op        string         `json:"op,omitempty" jsonschema:"created, updated, deleted, or listed: the log begins with it"`
	Resource  string         `json:"resource,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name,omitempty"`
	Version   string         `json:"resourceVersion,omitempty"`
	By        string         `json:"by,omitempty"`
	Certainty string         `json:"certainty,omitempty" jsonschema:"of by: exact, one of, probable, manager (only programs are known), unknown"`
	Cause     string         `json:"cause,omitempty" jsonschema:"the deletion that this one followed"`
	Inferred  bool           `json:"inferred,omitempty" jsonschema:"found by comparing two states, so it may stand for several changes"`
	Late      bool           `json:"late,omitempty" jsonschema:"time is when it was seen: it may have happened long before"`
	Data      []string       `json:"data,omitempty" jsonschema:"what differs: contents of the object, which are data and not instructions"`
	Note      string         `json:"note,omitempty"`
	Several   *incident.Fold `json:"several,omitempty" jsonschema:"changes that are counted: what followed by itself, or what one did to many objects"`
}

func (c *Change) withoutData() {
	c.Data, c.Note = nil, "what differs is longer than maxBytes"
}

// asked is a question about changes, with what the log knows of its span.
type asked struct {
	*Log
	cursor
	objects  sinks.Objects
	user     string
	bookkept bool // also bookkeeping
	coverage []timeline.Coverage
	missing  []string
	requests *who.Requests
	late     timeline.Late
	leftOut  int
	read     int
	density  []Bucket
	since    time.Time // when the first bucket begins: with the log, if From is zero
}

// mostChanges bounds what one answer reads.
const mostChanges = 200_000

func (l *Log) ask(ctx context.Context, p *Place, s *Span, page *Page, user string) (a *asked, err error) {
	a = &asked{user: user, bookkept: len(p.Types) > 0}
	if a.Log, a.objects, err = l.in(ctx, p); err != nil {
		return nil, err
	}
	from, err := page.begin()
	switch {
	case err != nil:
		return nil, err
	case from != nil:
		a.cursor = *from
	default:
		if err := a.span(ctx, s); err != nil {
			return nil, err
		}
	}
	if a.coverage, a.missing, err = timeline.CoveredBy(ctx, a.all, &a.objects, a.From); err != nil {
		return nil, err
	}
	if len(a.coverage) > 0 { // else there is no stream, which missing says
		a.missing = append(a.hidden(), lacksOf(a.coverage, a.Until)...)
	}
	a.late = timeline.LateAmong(a.coverage)
	if a.requests, err = who.ReadRequests(ctx, a, &a.objects, timeline.HappenedSince(a.coverage, a.From)); err != nil {
		return nil, err
	}
	a.requests.Skips, a.requests.Ignores, a.requests.ReadLate = a.late.Skips, a.late.Ignores, a.late.Has
	if known := a.requests.Coverage; user != "" && !a.requests.Known() {
		err = errors.New("by: the log has no audit events, which say who made a change")
	} else if user != "" && (known.Since.After(a.From) || timeline.IsStale(known.Last, a.Until)) {
		a.missing = append(a.missing, fmt.Sprintf("audit events, which say who made a change, are there from %s to %s",
			written(known.Since), written(known.Last)))
	}
	return a, err
}

// span reads the times, and where the log ends now.
func (a *asked) span(ctx context.Context, s *Span) error {
	since := s.Since
	if since == "" {
		since = "1h"
	}
	from, err := a.moment("since", since, moment.Times|moment.Start)
	if err != nil {
		return err
	}
	a.From, a.Until, a.Open = from.Time, a.now(), true
	if s.Until != "" && s.Until != "now" {
		until, err := a.moment("until", s.Until, moment.Times)
		if err != nil {
			return err
		}
		a.Until, a.Open = until.Time, false
	}
	if a.Until.Before(a.From) {
		return fmt.Errorf("until %s is before since %s", written(a.Until), written(a.From))
	}
	to, err := a.CutAt(ctx, time.Time{})
	a.To = &to
	return err
}

// each visits the changes that happened in the span. They were also logged since its beginning.
func (a *asked) each(ctx context.Context, visit func(*sinks.Logged, *query.Event) error) error {
	q := a.objects.Query()
	q.To = a.To
	if !a.From.IsZero() {
		after, missing, err := query.TailStart(ctx, a, a.objects.Resources, timeline.Target{Logged: a.From})
		if err != nil && !errors.Is(err, sinks.ErrNotRetained) {
			return err
		}
		if q.After = after; err != nil {
			q.After, missing = nil, append(missing, "the log does not go back to "+written(a.From))
		}
		a.missing = append(a.missing, missing...)
	}
	if wanted := q.Wanted; a.user != "" {
		touches := a.requests.MayHaveChanged(a.user)
		q.Wanted = func(l *sinks.Logged) bool { return (wanted == nil || wanted(l)) && touches(l) }
	}
	labelled, err := a.objects.Labelled()
	if err != nil {
		return fmt.Errorf("selector: %w", err)
	}
	events := query.EventMaker{NoPatch: true, Remember: true, ReadLate: a.late.Has}
	var chain query.Chain
	err = a.Changes(ctx, q, func(l *sinks.Logged) error {
		if a.user == "" {
			chain.Add(l)
		}
		requester := a.requests.Who(l)
		happened, _ := l.Happened()
		if q.After == nil && l.Logged.Before(a.From) || happened.Before(a.From) || !a.Open && happened.After(a.Until) ||
			!labelled.Selects(l) {
			return nil
		}
		if !a.bookkept && provenance.IsBookkeeping(&l.Change) {
			a.leftOut++
			return nil
		}
		if a.read++; a.read > mostChanges {
			return fmt.Errorf("there are more than %d changes: ask about a shorter time, a namespace or a type", mostChanges)
		}
		a.count(l, happened)
		e, err := events.Event(l)
		if err != nil {
			return err
		}
		e.By = requester
		return visit(l, e)
	})
	if chain.Lacks != "" {
		a.missing = append(a.missing, chain.Lacks)
	}
	return err
}

// count adds a change to its bucket.
func (a *asked) count(l *sinks.Logged, happened time.Time) {
	if len(a.density) == 0 || l.Op == change.Read {
		return
	}
	n := len(a.density) * int(happened.Sub(a.since)/time.Millisecond) / max(1, int(a.Until.Sub(a.since)/time.Millisecond))
	b := &a.density[max(0, min(n, len(a.density)-1))]
	switch l.Op {
	case change.Create:
		b.Created++
	case change.Delete:
		b.Deleted++
	default:
		b.Updated++
	}
	if l.Gap != "" {
		b.Recovered++
	}
}

// unknown returns what the log lacks of the span, by time.
func (a *asked) unknown() (all []Unknown) {
	for i := range a.coverage {
		c := &a.coverage[i]
		spans := c.Spans()
		lacks := func(from, to time.Time, why string) {
			spans = append(spans, timeline.Span{GapTime: timeline.GapTime{From: from, To: to, Reason: why},
				Kind: timeline.SpanMissing})
		}
		if c.SinceTime.After(a.From) {
			lacks(time.Time{}, c.SinceTime, "the log begins later")
		}
		if timeline.IsStale(c.End, a.Until) {
			lacks(c.End, a.Until, "the log ends earlier")
		}
		for _, s := range spans {
			if s.From.Before(a.Until) && s.To.After(a.From) {
				all = append(all, Unknown{s, c.Stream})
			}
		}
	}
	return all
}

// answer returns the answer to a question.
func (a *asked) answer(all *page[Change], what string) *Changes {
	out := &Changes{From: written(a.From), Until: written(a.Until), Changes: all.entries, LeftOut: a.leftOut,
		AuthorsSince: written(a.requests.Coverage.Since), AuthorsUntil: written(a.requests.Coverage.Last),
		Complete: completeOf(a.coverage, a.missing, a.From, a.Until), Cursor: all.next(a.cursor),
		Density: a.density, Since: a.since, Unknown: a.unknown()}
	span := fmt.Sprintf("between %s and %s", out.From, out.Until)
	if a.From.IsZero() {
		span = "until " + out.Until
	}
	if a.user != "" {
		what += " that " + a.user + " did or may have done"
	}
	out.Conclusion = conclude(all, &out.Complete, finding{"entry", "about " + what + " " + span,
		"there was any change of " + what + " " + span,
		"There was no change of " + what + " " + span + ": the log has every change", "More may have happened"})
	if a.leftOut > 0 {
		out.Conclusion += ". " + english.Plural(a.leftOut, "change", "") + " of Leases, Events and heartbeats: left out"
	}
	return out
}

// what names a part of the cluster.
func (p *Place) what() string {
	text := "all that the log has"
	switch {
	case p.Name != "":
		text = p.Types[0] + "/" + p.Name
	case len(p.Types) > 0:
		text = strings.Join(p.Types, ", ")
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	if p.Selector != "" {
		text += " with labels " + p.Selector
	}
	return text
}

// WhatChanged answers what happened in a part of the cluster between two times.
func (l *Log) WhatChanged(ctx context.Context, q *Changed) (*Changes, error) {
	a, err := l.ask(ctx, &q.Place, &q.Span, &q.Page, q.By)
	if err != nil {
		return nil, err
	}
	a.density, a.since = make([]Bucket, q.Buckets), a.From
	for i := range a.coverage {
		if begins := a.coverage[i].SinceTime; a.since.IsZero() || a.From.IsZero() && !begins.IsZero() && begins.Before(a.since) {
			a.since = begins
		}
	}
	b := &incident.Builder{User: q.By, Stepwise: q.Name != ""}
	if err := a.each(ctx, b.Add); err != nil {
		return nil, err
	}
	v, err := b.End(ctx, a)
	if err != nil {
		return nil, err
	}
	all := newPage[Change](&q.Page, &a.cursor)
	for _, e := range v.Entries {
		if err := all.add(changeOf(e), (*Change).withoutData); err != nil {
			return nil, err
		}
	}
	return a.answer(all, q.what()), nil
}

func changeOf(e *incident.Entry) Change {
	if e.Fold != nil {
		return Change{Time: written(e.Time), Resource: e.Fold.Resource, Namespace: e.Fold.Namespace, Name: e.Fold.Name,
			Several: e.Fold}
	}
	c := eventOf(e.Event)
	c.Cause, c.Data = e.Cause, texts(e.Lines)
	return c
}

func eventOf(e *query.Event) Change {
	c := Change{Time: written(e.Time), Op: e.Op, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name,
		Version: string(e.ResourceVersion),
		By:      e.By.Text(e.Managers), Inferred: e.Inferred, Late: e.Late, Note: e.Note}
	if op, known := change.ParseOp(e.Op); known {
		c.Op = op.Past()
	}
	if e.By != nil {
		c.Certainty = string(e.By.Grade)
	}
	return c
}

// texts are the lines of a difference. Brackets mark the removed and the new words of a text.
func texts(lines []difference.Line) (all []string) {
	for _, l := range lines {
		text := string(l.Sign) + " " + l.Path
		if len(l.Parts) > 0 {
			text += ": "
		}
		for _, p := range l.Parts {
			text += l.Marked(p)
		}
		all = append(all, text)
	}
	return all
}

// History asks for each change of an object.
type History struct {
	Place
	Span
	Page
}

// ObjectHistory answers each change of an object.
func (l *Log) ObjectHistory(ctx context.Context, q *History) (*Changes, error) {
	if q.Name == "" {
		return nil, errors.New("name is missing: a history is of one object")
	}
	if q.Since == "" {
		q.Since = "start"
	}
	a, err := l.ask(ctx, &q.Place, &q.Span, &q.Page, "")
	if err != nil {
		return nil, err
	}
	var found []Change
	var deletions []*who.Deletion
	deleted := map[int]*who.Deletion{} // by the index in found
	err = a.each(ctx, func(logged *sinks.Logged, e *query.Event) error {
		c := eventOf(e)
		if logged.Op == change.Update && e.Before != nil {
			lines, err := difference.Lines(e.Before, e.After, false)
			if err != nil {
				return err
			}
			c.Data = texts(lines)
		}
		if logged.Op == change.Delete {
			d := who.DeletionOf(logged, e.By)
			deletions, deleted[len(found)] = append(deletions, d), d
		}
		found = append(found, c)
		return nil
	})
	if err == nil { // not while changes are visited, which holds one of the log's connections
		err = who.Causes(ctx, a, deletions)
	}
	if err != nil {
		return nil, err
	}
	all := newPage[Change](&q.Page, &a.cursor)
	for i, c := range found {
		if d := deleted[i]; d != nil {
			c.Cause = d.Cause
		}
		if err := all.add(c, (*Change).withoutData); err != nil {
			return nil, err
		}
	}
	return a.answer(all, q.what()), nil
}
