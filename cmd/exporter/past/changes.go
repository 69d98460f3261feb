package past

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/query"
	"kubecdc/sinks"
)

var changesHelp = `
--since is one of
` + cli.SinceForms.Help() + `

A time means when the log got the changes.

-o diff shows what differs: of long texts what is around it, of lists the items, by
their name where they have one. It leaves out what changes with every update
(managedFields, resourceVersion, generation), unless --all-fields is given. json is
one line for each change, with a JSON Patch (RFC 6902) from the object before to the
object after it.

--where is an expression in CEL (https://cel.dev) over before and after (the object,
or null), op ("c", "u", "d", "r"), resource, ns (the namespace), name, and by (the user
who made the change, where one alone fits; else empty). A change to which it does not
apply, such as that of an object without a field that it names, is left out:
has(after.spec.replicas) asks first.

Who made a change comes from the API server's audit events, if the exporter gets them
(docs/who.md); stderr says since when. json has the grade: exact, one of, probable,
manager or unknown. --by also shows what may be the user's, and for history what was
deleted with an owner that the user has deleted.
` + logHelp

// changes prints changes of a log: for history in the order in which they happened, with the reasons of deletions; for tail as they
// were logged. Then it goes on with those that come.
type changes struct {
	pastFlags
	history      bool
	since, where string
	by           string
	all          bool // what changes with every update, too
	follow       bool
	last         int  // only so many of those that the log has; 0: all
	titled       bool // each change has the name of its object
	teller       query.Teller
	requests     *query.Requests
	untold       query.Untold
	refreshed    time.Time
	filter       *query.Filter
	warned       bool // that the filter does not apply to some changes
	labelled     *sinks.Labelled
	out          *colours
}

func (t *changes) flags(c *cobra.Command, first, second string) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error { return notKept(t.run(c.Context(), c, args)) }
	c.Flags().StringVar(&t.since, "since", "", "the moment to begin at")
	c.Flags().StringVar(&t.where, "where", "", "an expression in CEL that selects changes")
	c.Flags().StringVar(&t.by, "by", "", "only changes that this user has, or may have, made: alice, system:serviceaccount:shop:web")
	c.Flags().BoolVarP(&t.follow, "follow", "f", t.follow, "go on with the changes that come")
	c.Flags().BoolVar(&t.all, "all-fields", false, "show managedFields, resourceVersion and generation too")
	return t.pastFlags.flags(c, first, second, "wide", "name", "json", "yaml", cli.JSONPath)
}

func (t *changes) run(ctx context.Context, c *cobra.Command, args []string) error {
	since, err := cli.ParseMoment("--since", cmp.Or(t.since, "now"), cli.SinceForms)
	if err != nil {
		return err
	}
	if t.where != "" {
		if t.filter, err = query.NewFilter(t.where); err != nil {
			return fault.Usage("--where: " + err.Error())
		}
	}
	r, of, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer r.Close()
	if t.labelled, err = of.Labelled(); err != nil {
		return err
	}
	t.out, t.titled = t.colours(c.OutOrStdout()), !t.history || len(of.Names) != 1 || of.Namespace == ""
	t.teller.NoPatch = t.Format == "diff" || t.Format == "wide"
	if err = t.ask(ctx, c, r, &of, since.Time); err != nil {
		return err
	}
	if t.history {
		coverage, missing, err := query.Covered(ctx, r, &of)
		if err != nil {
			return err
		}
		if err := t.printCoverage(c.ErrOrStderr(), query.Target{}, coverage, missing); err != nil {
			return err
		}
	}
	past, end, err := t.logged(ctx, c, r, of.Query(), query.TargetOf(since, true))
	if err != nil {
		return err
	}
	if len(past) == 0 && t.history && len(of.Names) > 0 && !t.follow {
		return fmt.Errorf("the log has no such change of %s%s", strings.Join(of.Names, ", "), inNamespace(of.Namespace))
	}
	return t.print(ctx, c, r, of.Query(), past, &end)
}

// logged reads what the log has, from where the flags say.
func (t *changes) logged(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, since query.Target) (past []line, end sinks.Cut, err error) {
	if end, err = r.End(ctx); err != nil {
		return nil, end, err
	}
	q.To = &end
	switch {
	case since != query.Target{}:
		var missing []string
		q.After, missing, err = query.Start(ctx, r, q.Resources, since)
		if t.incomplete && errors.Is(err, sinks.ErrNotKept) {
			q.After, err = nil, nil
		}
		if err == nil {
			err = t.printCoverage(c.ErrOrStderr(), since, nil, missing)
		}
		if err == nil {
			past, err = t.past(ctx, c, r, q)
		}
	case t.last > 0 && t.since == "":
		past, err = t.newest(ctx, c, r, q)
	case t.history && t.since == "":
		past, err = t.past(ctx, c, r, q)
	}
	return past, end, err
}

// newest reads the last changes: in ever longer times before now, until there are enough.
func (t *changes) newest(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) ([]line, error) {
	for _, back := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour} {
		cut, err := r.At(ctx, time.Now().Add(-back))
		if err == nil {
			q.After = &cut
			var past []line
			if past, err = t.past(ctx, c, r, q); len(past) == t.last {
				return past, err
			}
		}
		if errors.Is(err, sinks.ErrNotKept) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	q.After = nil
	return t.past(ctx, c, r, q)
}

// line is a printed change. The past is printed when all of it was read, since a log has no order over its partitions.
type line struct {
	at, seen time.Time
	text     plain.Own
	// Of a deletion, whose text is made once its cause is known:
	deletion *query.Deletion
	change   *sinks.Logged
	event    *query.Event
}

func (l line) compare(other line) int {
	return cmp.Or(l.at.Compare(other.at), l.seen.Compare(other.seen))
}

// past reads the changes up to q.To, and sorts them.
func (t *changes) past(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) (all []line, err error) {
	show := cli.NewProgress(c.ErrOrStderr(), "reading", 0, nil)
	defer show.End()
	if t.by != "" {
		q.Wanted = both(q.Wanted, t.requests.Touches(t.by))
	}
	t.untold = query.Untold{}
	last := map[string]line{} // of each object, before which no later one is told
	q.Progress = show.At
	err = r.Changes(ctx, q, func(l *sinks.Logged) error {
		by := t.requests.Who(l)
		t.untold.Count(t.requests, l, by)
		if !t.selects(show, l, by) {
			return nil
		}
		now := line{at: l.Logged, seen: l.Time}
		if t.history {
			now.at, _ = l.Happened()
		}
		key := change.ResourceOf(l.Stream.ID()).ID() + "\x00" + l.Change.Key()
		if before := last[key]; now.compare(before) < 0 {
			now = before
		}
		last[key] = now
		deletion := t.history && l.Op == change.Delete && (by != nil || t.Format == "diff")
		if deletion {
			l = owned(l)
		}
		e, err := t.event(l, by)
		switch {
		case err != nil:
			return err
		case deletion:
			now.deletion, now.change, now.event = query.DeletionOf(l, by), l, e
		case t.by != "" && !by.Is(t.by):
			return nil
		default:
			now.text, err = t.text(l, e)
		}
		all = append(all, now)
		return err
	})
	if err == nil {
		slices.SortStableFunc(all, line.compare)
		all, err = t.caused(ctx, r, all)
	}
	if t.last > 0 {
		all = all[max(0, len(all)-t.last):]
	}
	return all, err
}

func both(a, b func(*sinks.Logged) bool) func(*sinks.Logged) bool {
	return func(l *sinks.Logged) bool { return (a == nil || a(l)) && b(l) }
}

// caused adds the causes of deletions, and drops those that are not of the user who is asked for.
func (t *changes) caused(ctx context.Context, r sinks.Reader, all []line) ([]line, error) {
	var deletions []*query.Deletion
	for _, l := range all {
		if l.deletion != nil {
			deletions = append(deletions, l.deletion)
		}
	}
	if err := query.Causes(ctx, r, deletions); err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, l := range all {
		if l.deletion != nil {
			if t.by != "" && !l.deletion.By.Is(t.by) {
				continue
			}
			var err error
			if l.text, err = t.text(l.change, l.event); err != nil {
				return nil, err
			}
			if l.deletion.Cause != "" && t.Format == "diff" {
				l.text += plain.Sprintf("  %s\n", l.deletion.Cause)
			}
		}
		kept = append(kept, l)
	}
	return kept, nil
}

// owned returns a copy that stays valid, without the record, which no text has.
func owned(l *sinks.Logged) *sinks.Logged {
	c := *l
	c.Key, c.Value, c.JSONKey, c.JSONValue, c.Headers = nil, nil, nil, nil, nil
	c = c.Clone()
	return &c
}

// print prints what is past, and follows.
func (t *changes) print(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, past []line, end *sinks.Cut) error {
	if t.untold.Changes > 0 && t.by == "" {
		plain.Fprintf(c.ErrOrStderr(), "# %s\n", &t.untold)
	}
	out := c.OutOrStdout()
	header := line{text: t.row("LOGGED", "CHANGE", "VERSION", "RESOURCE", "OBJECT", "BY", "HAPPENED", "UID")}
	for _, l := range slices.Insert(past, 0, header) {
		if err := cli.Write(out, l.text); err != nil {
			return err
		}
	}
	if !t.follow {
		return nil
	}
	q.After, q.Follow = end, true
	return cli.UntilStopped(r.Changes(ctx, q, func(l *sinks.Logged) error {
		if err := t.refresh(ctx); err != nil {
			return err
		}
		by := t.requests.Who(l)
		if !t.selects(c.ErrOrStderr(), l, by) {
			return nil
		}
		e, err := t.event(l, by)
		if err != nil || t.by != "" && !by.Is(t.by) {
			return err
		}
		text, err := t.text(l, e)
		if err != nil {
			return err
		}
		return cli.Write(out, text)
	}))
}

// selects decides by labels and by the expression. It says once that the expression does not apply to some change.
func (t *changes) selects(errs io.Writer, l *sinks.Logged, by *query.Who) bool {
	if labelled := t.labelled.Selects(l); !labelled || t.filter == nil {
		return labelled
	}
	selected, err := t.filter.Selects(l, by)
	if err != nil && !t.warned {
		t.warned = true
		plain.Fprintf(errs, "# --where does not apply to some changes, which are left out; the first is of %s %s: %v\n",
			change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name), err)
	}
	return selected
}

// whole is a change as tail has it in json and yaml.
type whole struct {
	*query.Event
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// event is what a format tells of a change; nil: it needs none. It is asked for all changes in their order, since it remembers.
func (t *changes) event(l *sinks.Logged, by *query.Who) (*query.Event, error) {
	if t.Format == "name" || t.Format == "table" {
		return nil, nil
	}
	e, err := t.teller.Event(l)
	e.By = by
	return e, err
}

// text is a change as it is printed.
func (t *changes) text(l *sinks.Logged, e *query.Event) (plain.Own, error) {
	resource, object := change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name)
	logged := l.Logged.UTC().Format(time.RFC3339)
	switch {
	case t.Format == "name":
		return plain.Sprintf("%s/%s\n", resource, l.Name), nil
	case t.Format == "table":
		return t.row(logged, l.Op.Past(), l.ResourceVersion, resource, object), nil
	case t.Format == "wide":
		return t.row(logged, l.Op.Past(), l.ResourceVersion, resource, object, cmp.Or(e.By.Text(e.Managers), "-"),
			e.Time.Format(time.RFC3339), l.UID), nil
	case t.Format == "diff":
		return t.changelog(e)
	case t.history && t.since == "":
		return t.Document(e)
	}
	return t.Document(&whole{e, change.OrNull(l.Before), change.OrNull(l.After)})
}

// row is one of a table: the first five columns, and with wide all. Other formats have none.
func (t *changes) row(columns ...any) plain.Own {
	const narrow = "%-20s  %-8s  %-12s  %-30s  %s"
	switch t.Format {
	case "table":
		return plain.Sprintf(narrow+"\n", columns[:5]...)
	case "wide":
		return plain.Sprintf(narrow+"  %s  %s  %s\n", columns...)
	}
	return ""
}
