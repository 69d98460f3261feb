package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/internal/usage"
	"kubecdc/query"
	"kubecdc/sinks"
)

// changes is what history and tail have in common: they print changes of a log, those that it has in the order of time, then those
// that come.
type changes struct {
	pastFlags
	teller     query.Teller
	labelled   *sinks.Labelled
	since      string
	where      string
	all        bool // also what changes with every update
	follow     bool
	last       int  // print so many of those that the log has; 0: all
	byHappened bool // and not by when they were logged
	titled     bool // each change is named, since they may be of several objects
	filter     *query.Filter
	told       bool // that the filter does not apply to some changes
	out        *colours
}

// flags adds what history and tail have in common. The first format is the default.
func (t *changes) flags(c *cobra.Command, first string) *cobra.Command {
	f := c.Flags()
	f.StringVar(&t.where, "where", "", "an expression in CEL that selects changes")
	f.BoolVarP(&t.follow, "follow", "f", t.follow, "go on with the changes that come")
	f.BoolVar(&t.all, "all-fields", false, "diff shows managedFields, resourceVersion and generation too")
	rest := slices.DeleteFunc([]string{"diff", "table", "wide", "name", "json", "yaml", jsonPath}, func(o string) bool { return o == first })
	return t.pastFlags.flags(c, append([]string{first}, rest...)...)
}

const changeHelp = `
-o diff shows what changed: of long strings and texts what is around the difference, of
lists the items, by their name where they have one. table and wide have a line for each
change, name its object. json is one line for each change, with a JSON Patch (RFC 6902).

--where is an expression in CEL (https://cel.dev) over before and after (the object,
or null), op ("c", "u", "d", "r"), resource, ns (the namespace) and name. A change
to which it does not apply, such as that of an object without a field that it names,
is left out: has(after.spec.replicas) asks first.
`

// prepare reads the flags that select changes.
func (t *changes) prepare(c *cobra.Command, of *sinks.Objects) (err error) {
	if t.where != "" {
		if t.filter, err = query.NewFilter(t.where); err != nil {
			return usage.Error("--where: " + err.Error())
		}
	}
	t.labelled, err = of.Labelled()
	t.out, t.titled = t.colours(c.OutOrStdout()), !t.byHappened || len(of.Names) != 1 || of.Namespace == ""
	t.teller.NoPatch = t.format == "diff" || t.format == "wide"
	return err
}

// past reads the changes up to a cut, and sorts them.
func (t *changes) past(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, to *sinks.Cut) ([]line, error) {
	show := newProgress(c.ErrOrStderr(), "reading", 0, nil)
	defer show.end()
	var all []line
	last := map[string]line{} // of each object, before which no later one is told
	q.To, q.Progress = to, show.at
	err := r.Changes(ctx, q, func(l *sinks.Logged) error {
		if !t.selects(show, l) {
			return nil
		}
		now := line{at: l.Logged, seen: l.Time}
		if t.byHappened {
			now.at, _ = l.Happened()
		}
		key := change.ResourceOf(l.Stream.ID()).ID() + "\x00" + l.Change.Key()
		if before := last[key]; now.compare(before) < 0 {
			now.at, now.seen = before.at, before.seen
		}
		last[key] = line{at: now.at, seen: now.seen}
		var err error
		if t.byHappened && l.Op == change.Delete && t.format != "table" && t.format != "name" {
			now.deleted, err = t.teller.Event(l)
			now.deleted.Keep()
		} else {
			now.text, err = t.text(l)
		}
		all = append(all, now)
		return err
	})
	slices.SortStableFunc(all, line.compare)
	if t.last > 0 {
		all = all[max(0, len(all)-t.last):]
	}
	return all, err
}

// print prints what is past, and follows.
func (t *changes) print(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, past []line, end *sinks.Cut) error {
	out := c.OutOrStdout()
	if err := t.explain(ctx, r, past); err != nil {
		return err
	}
	if t.format == "table" || t.format == "wide" {
		t.row(out, "LOGGED", "CHANGE", "VERSION", "RESOURCE", "OBJECT", "BY", "HAPPENED", "UID")
	}
	for _, l := range past {
		if err := write(out, l.text); err != nil {
			return err
		}
	}
	if !t.follow {
		return nil
	}
	q.After, q.Follow = end, true
	return untilStopped(r.Changes(ctx, q, func(l *sinks.Logged) error {
		if !t.selects(c.ErrOrStderr(), l) {
			return nil
		}
		text, err := t.text(l)
		if err == nil {
			err = write(out, text)
		}
		return err
	}))
}

// line is a printed change. Deletions are printed when all was read that may tell what caused them.
type line struct {
	at, seen time.Time
	text     plain.Own
	deleted  *query.Event
}

func (a line) compare(b line) int { return cmp.Or(a.at.Compare(b.at), a.seen.Compare(b.seen)) }

// explain tells of deletions what caused them, and prints them.
func (t *changes) explain(ctx context.Context, r sinks.Reader, past []line) error {
	var deleted []*query.Event
	for _, l := range past {
		if l.deleted != nil {
			deleted = append(deleted, l.deleted)
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	err := query.Causes(ctx, r, deleted)
	for i := range past {
		if e := past[i].deleted; e != nil && err == nil {
			past[i].text, err = t.event(e)
		}
	}
	return err
}

// selects decides by labels and by the expression. It says once that the expression does not apply to some change.
func (t *changes) selects(errs io.Writer, l *sinks.Logged) bool {
	if !t.labelled.Selects(l) {
		return false
	}
	if t.filter == nil {
		return true
	}
	selected, err := t.filter.Selects(l)
	if err != nil && !t.told {
		t.told = true
		plain.Fprintf(errs, "# --where does not apply to some changes, which are left out; the first is of %s %s: %v\n",
			change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name), err)
	}
	return selected
}

// whole is a change as json and yaml have it when several resources may be followed.
type whole struct {
	*query.Event
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// text is a change as it is printed.
func (t *changes) text(l *sinks.Logged) (plain.Own, error) {
	if t.format == "name" || t.format == "table" {
		return t.event(&query.Event{Resource: change.ResourceOf(l.Stream.ID()).ID(), Namespace: l.Namespace, Name: l.Name, Op: l.Op.String(),
			ResourceVersion: l.ResourceVersion, Logged: l.Logged.UTC()})
	}
	event, err := t.teller.Event(l)
	if err != nil {
		return "", err
	}
	return t.event(event)
}

func (t *changes) event(e *query.Event) (plain.Own, error) {
	switch t.format {
	case "name":
		return plain.Sprintf("%s/%s\n", e.Resource, e.Name), nil
	case "table", "wide":
		op, _ := change.ParseOp(e.Op)
		var b strings.Builder
		t.row(&b, e.Logged.Format(time.RFC3339), op.Past(), e.ResourceVersion, e.Resource, change.ObjectKey(e.Namespace, e.Name),
			cmp.Or(strings.Join(e.Managers, ","), e.Cause, "-"), e.Time.Format(time.RFC3339), e.UID)
		return plain.Own(b.String()), nil
	case "diff":
		return t.changelog(e)
	}
	if t.byHappened {
		return t.document(e)
	}
	return t.document(&whole{e, change.OrNull(e.Before), change.OrNull(e.After)})
}

// row prints the columns of a table; those of wide are the last three.
func (t *changes) row(out io.Writer, columns ...any) {
	const narrow = "%-20s  %-8s  %-12s  %-30s  %s"
	if t.format == "table" {
		plain.Fprintf(out, narrow+"\n", columns[:5]...)
		return
	}
	plain.Fprintf(out, narrow+"  %s  %s  %s\n", columns...)
}
