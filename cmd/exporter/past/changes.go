package past

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/change/provenance"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/query"
	"kubecdc/sinks"
)

var changesHelp = `
--since is one of
` + cli.SinceForms.Help() + `

A time means when the log got the changes; with --clock happened, when they happened.

-o diff shows what differs: of long texts what is around it, of lists the items, by
their name where they have one. It leaves out what changes with every update
(managedFields, resourceVersion, generation) and copies of the object in annotations
(last-applied-configuration), unless --all-fields is given. On a terminal long
differences are folded, unless -o diff is given, and long answers go through the pager
that PAGER names; Leases, Events and heartbeats of Nodes are left out where no TYPE is
named, unless --all is given. json is
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

// changes are the flags of history and tail, and what both read and print the changes of a log with.
type changes struct {
	pastFlags
	since, where string
	by           string
	follow       bool
	begin        moment.Moment // what since says
	filter       *query.Filter
	warned       bool // that the filter does not apply to some changes
	labelled     *sinks.Labelled
	requests     *query.Requests
	untold       query.Unmatched
	refreshed    time.Time
	bookkeeping  bool // is shown too
	typed        bool // resources are named
	left         int  // changes that are bookkeeping, and not shown
	printer
}

const allFields = "show managedFields, resourceVersion, generation and copies of the object too"

func (t *changes) flags(c *cobra.Command, first, second string) *cobra.Command {
	c.Flags().StringVar(&t.since, "since", "", "the moment to begin at")
	t.clockFlag(c, "logged")
	c.Flags().StringVar(&t.where, "where", "", "an expression in CEL that selects changes")
	c.Flags().StringVar(&t.by, "by", "", "only changes that this user has, or may have, made: alice, system:serviceaccount:shop:web")
	c.Flags().BoolVarP(&t.follow, "follow", "f", t.follow, "go on with the changes that come")
	c.Flags().BoolVar(&t.all, "all-fields", false, allFields)
	c.Flags().BoolVar(&t.bookkeeping, "all", false, "on a terminal show Leases, Events and heartbeats of Nodes too, where no TYPE is named")
	return t.pastFlags.flags(c, first, second, "wide", "name", "json", "yaml", cli.JSONPath)
}

// open reads the flags, opens the log, and finds the objects in it that are asked about.
func (t *changes) open(ctx context.Context, c *cobra.Command, args []string) (r sinks.ReadCloser, of sinks.Objects, err error) {
	if err = t.checkClock(); err != nil {
		return nil, of, err
	}
	if t.begin, err = cli.ParseMoment("--since", cmp.Or(t.since, "now"), cli.SinceForms); err != nil {
		return nil, of, err
	}
	if t.where != "" {
		if t.filter, err = query.NewFilter(t.where); err != nil {
			return nil, of, fault.Usage("--where: " + err.Error())
		}
	}
	if r, of, err = t.pastFlags.open(ctx, c, args); err != nil {
		return nil, of, err
	}
	if t.labelled, err = of.Labelled(); err != nil {
		r.Close()
		return nil, of, err
	}
	t.printer.flags, t.colours = &t.pastFlags, t.newColours(c.OutOrStdout())
	t.typed = len(of.Resources) > 0
	t.teller.NoPatch = t.screen != nil || t.Format == "diff" || t.Format == "wide"
	return r, of, nil
}

// after returns the cut after which the changes begin that --since asks for, and says what they may lack.
func (t *changes) after(ctx context.Context, c *cobra.Command, r sinks.Reader, resources []string) (*sinks.Cut, error) {
	target := query.TargetOf(t.begin, true)
	cut, missing, err := query.TailStart(ctx, r, resources, target)
	if t.incomplete && errors.Is(err, sinks.ErrNotRetained) {
		return nil, t.printCoverage(c.ErrOrStderr(), target, nil, missing)
	}
	if err != nil {
		return nil, err
	}
	return cut, t.printCoverage(c.ErrOrStderr(), target, nil, missing)
}

// read visits the changes up to q.To that the flags select, with who made each.
func (t *changes) read(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, visit func(*sinks.Logged, *query.Who) error) error {
	show := cli.NewProgress(c.ErrOrStderr(), "reading", 0, nil)
	defer show.End()
	if wanted := q.Wanted; t.by != "" {
		touches := t.requests.MayHaveChanged(t.by)
		q.Wanted = func(l *sinks.Logged) bool { return (wanted == nil || wanted(l)) && touches(l) }
	}
	t.untold, t.left, q.Progress = query.Unmatched{}, 0, show.At
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		by := t.requests.Who(l)
		t.untold.Count(t.requests, l, by)
		if at, _ := l.Happened(); t.clock == "happened" && at.Before(t.begin.Time) || !t.selects(show, l, by) {
			return nil // what happened since a time was logged since then, too
		}
		return visit(l, by)
	})
}

// print prints what is past, and follows.
func (t *changes) print(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, past []line) error {
	if t.untold.Changes > 0 && t.by == "" {
		t.remark(c.ErrOrStderr(), t.untold.String())
	}
	if t.left > 0 {
		t.remark(c.ErrOrStderr(), "left out: Leases, Events and heartbeats of Nodes, "+humanize.Comma(int64(t.left))+" in all (--all shows them)")
	}
	out, end := t.page(c.OutOrStdout(), t.follow)
	header := line{text: t.row("LOGGED", "CHANGE", "VERSION", "RESOURCE", "OBJECT", "BY", "HAPPENED", "UID")}
	for _, l := range slices.Insert(past, 0, header) {
		if err := cli.Write(out, l.text); err != nil {
			return err
		}
	}
	if err := end(); err != nil || !t.follow {
		return err
	}
	q.After, q.To, q.Follow = q.To, nil, true
	return cli.UntilStopped(r.Changes(ctx, q, func(l *sinks.Logged) error { return t.next(ctx, c.ErrOrStderr(), out, l) }))
}

// next prints a change that has come.
func (t *changes) next(ctx context.Context, errs, out io.Writer, l *sinks.Logged) error {
	if err := t.refresh(ctx); err != nil {
		return err
	}
	by := t.requests.Who(l)
	if !t.selects(errs, l, by) || t.by != "" && !by.Is(t.by) {
		return nil
	}
	text, err := t.change(l, by)
	if err != nil {
		return err
	}
	return cli.Write(out, text)
}

// selects decides by labels, by the expression, and what is bookkeeping. It says once that the expression does not apply to some change.
func (t *changes) selects(errs io.Writer, l *sinks.Logged, by *query.Who) bool {
	if !t.labelled.Selects(l) {
		return false
	}
	if t.screen != nil && !t.bookkeeping && !t.typed && provenance.IsBookkeeping(&l.Change) {
		t.left++
		return false
	}
	if t.filter == nil {
		return true
	}
	selected, err := t.filter.Selects(l, by)
	if err != nil && !t.warned {
		t.warned = true
		plain.Fprintf(errs, "# --where does not apply to some changes, which are left out; the first is of %s %s: %v\n",
			change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name), err)
	}
	return selected
}

// readRequests reads who made the changes since a time.
func (t *changes) readRequests(ctx context.Context, c *cobra.Command, r sinks.Reader, of *sinks.Objects, since time.Time) (err error) {
	if t.requests, err = t.requestsSince(ctx, c, r, of, since); err == nil && t.by != "" && !t.requests.Known() {
		err = fault.Usage("--by: the log has no audit events, which tell who made a change: docs/who.md says how to have them")
	}
	t.refreshed = time.Now()
	return err
}

// refresh reads the audit events that have come since, once in a second.
func (t *changes) refresh(ctx context.Context) error {
	if time.Since(t.refreshed) < time.Second {
		return nil
	}
	t.refreshed = time.Now()
	return t.requests.Refresh(ctx)
}
