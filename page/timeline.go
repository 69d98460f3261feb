package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"kubecdc/answer"
	"kubecdc/internal/suggest"
)

func (v *view) timeline(ctx context.Context) (g.Node, error) {
	found, err := v.log.WhatChanged(ctx, &answer.Changed{Place: v.place(), Span: v.span(), Page: v.page(), By: v.get("by"),
		Buckets: buckets})
	if err != nil {
		return nil, err
	}
	axis, err := axisOf(found)
	if err != nil {
		return nil, err
	}
	var rows g.Group
	for _, r := range rowsOf(found.Changes) {
		rows = append(rows, v.row(axis, r))
	}
	fixed := h.P(v.link("This span, for others", "", "since", axis.from.UTC().Format(time.RFC3339), "until", found.Until))
	return g.Group{v.form(), conclusion(found.Conclusion, &found.Complete), v.authors(found), v.density(axis, found), fixed,
		h.Ol(h.Class("rows"), rows), v.more(found.Cursor), v.command(v.spanned("exporter", "history")...)}, nil
}

// authors says from when on the log knows who made a change.
func (v *view) authors(found *answer.Changes) g.Node {
	if found.AuthorsSince == "" {
		return h.P(h.Class("quiet"), g.Text("The log has no audit events: programs are known, but no users."))
	}
	if found.AuthorsSince > found.From {
		return h.P(h.Class("quiet"), g.Text("Users are known since "), stamp(found.AuthorsSince), g.Text("."))
	}
	return nil
}

// row is an object, or an owner with what it controls, and what happened to it.
type row struct {
	resource, namespace, name string
	changes                   []answer.Change
}

// rowsOf returns the rows of some changes, the row that changed last first.
func rowsOf(changes []answer.Change) (rows []*row) {
	byName := map[string]*row{}
	for i := range changes {
		r := rowOf(&changes[i])
		key := suggest.Short(r.resource) + " " + r.namespace + "/" + r.name
		if byName[key] == nil {
			byName[key] = r
			rows = append(rows, r)
		}
		byName[key].changes = append(byName[key].changes, changes[i])
	}
	slices.SortStableFunc(rows, func(a, b *row) int {
		return strings.Compare(b.changes[len(b.changes)-1].Time, a.changes[len(a.changes)-1].Time)
	})
	return rows
}

// rowOf returns the row of a change, which is empty.
func rowOf(c *answer.Change) *row {
	if f := c.Several; f != nil && f.Owner != "" {
		short, name, _ := strings.Cut(f.Owner, "/")
		return &row{resource: short, namespace: c.Namespace, name: name}
	}
	return &row{resource: c.Resource, namespace: c.Namespace, name: c.Name}
}

func (r *row) title() string {
	if r.name == "" {
		return strings.TrimSpace("several objects " + suggest.Short(r.resource))
	}
	return suggest.Short(r.resource) + "/" + r.name
}

// row shows the changes of a row on the axis, and in words below.
func (v *view) row(a axis, r *row) g.Node {
	var marks, words g.Group
	for i := range r.changes {
		c := &r.changes[i]
		if when, err := time.Parse(time.RFC3339, c.Time); err == nil {
			marks = append(marks, rect("mark "+class(c), max(a.x(when)-3, 0), 2, 6, 14, clock(when)+" "+what(c)))
		}
		words = append(words, v.entry(c))
	}
	life := g.Node(nil)
	if full := r.changes[0].Resource; r.name != "" && r.changes[0].Name == r.name {
		life = h.P(v.link("Its life", "", "type", full, "namespace", r.namespace, "name", r.name, "by", ""))
	}
	count := english.Plural(len(r.changes), "entry", "entries")
	return h.Li(h.Details(h.Summary(h.Span(h.Class("subject"), text(r.title()), h.Small(text(r.namespace))),
		svg("life", "img", count+" about "+r.title(), 18, marks), h.Span(h.Class("quiet"), g.Text(count))),
		h.Ul(h.Class("entries"), words), life))
}

func class(c *answer.Change) string {
	switch {
	case c.Several != nil && c.Several.Deleted > 0:
		return "deleted"
	case c.Several != nil && c.Several.Created > 0:
		return "created"
	case c.Several != nil:
		return "folded"
	}
	return c.Op
}

// what says in words what happened.
func what(c *answer.Change) string {
	f := c.Several
	if f == nil {
		return c.Op
	}
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{{f.Created, "created"}, {f.Deleted, "deleted"}, {f.Updates, "updated"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprint(p.n, " ", p.text))
		}
	}
	if f.Listed {
		parts = []string{"found by the first list"}
	}
	text := english.Plural(f.Objects, "object", "")
	if f.Resource != "" {
		text = fmt.Sprint(f.Objects, " ", suggest.Short(f.Resource))
	}
	return strings.Join(slices.Concat([]string{text}, parts, f.Status, f.Fields), ", ")
}

// entry is a change in words, with what differs.
func (v *view) entry(c *answer.Change) g.Node {
	var signs []string
	if c.Inferred {
		signs = append(signs, "inferred: it may stand for several changes")
	}
	if c.Late {
		signs = append(signs, "seen then: it may have happened long before")
	}
	if c.Cause != "" {
		signs = append(signs, c.Cause)
	}
	if c.Note != "" {
		signs = append(signs, c.Note)
	}
	author := c.By
	if c.Several != nil {
		author = c.Several.Author
	}
	if c.Certainty != "" && c.Certainty != "exact" && author != "" {
		author += " (" + c.Certainty + ")"
	}
	when := stamp(c.Time)
	if c.Time != "" && c.Name != "" && c.Several == nil {
		when = h.A(h.Href(v.address(c.Time, "type", c.Resource, "namespace", c.Namespace, "name", c.Name, "since", "", "until",
			"", "by", "", "selector", "")), h.Title("the object after this change"), when)
	}
	return h.Li(h.Class(class(c)), when, g.Text(" "), h.Strong(text(what(c))),
		g.If(author != "", h.Span(g.Text(" by "), text(author))), small(signs), lines(c.Data))
}

func small(texts []string) g.Node {
	return g.Map(texts, func(s string) g.Node { return h.Small(text(s)) })
}

// lines shows what differs.
func lines(data []string) g.Node {
	if len(data) == 0 {
		return nil
	}
	return h.Pre(g.Map(data, func(line string) g.Node {
		kind := map[byte]string{'+': "created", '-': "deleted"}[line[0]]
		return h.Span(h.Class(kind), text(line), g.Text("\n"))
	}))
}

// life shows each change of an object.
func (v *view) life(ctx context.Context) (g.Node, error) {
	found, err := v.log.ObjectHistory(ctx, &answer.History{Place: v.place(), Span: v.span(), Page: v.page()})
	if err != nil {
		return nil, err
	}
	var entries g.Group
	for i := range found.Changes {
		entries = append(entries, v.entry(&found.Changes[i]))
	}
	return g.Group{v.form(), conclusion(found.Conclusion, &found.Complete), v.authors(found), h.Ul(h.Class("entries"), entries),
		v.more(found.Cursor), v.command(v.spanned("exporter", "history", "--status")...)}, nil
}
