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
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

var changesHelp = `
--since is one of
` + cli.SinceForms.Help() + `

A time means when the log got the changes. With --clock happened it means when they
happened.

-o diff shows what differs: in long texts the words or lines around a difference, in
lists the items, by name if they have one. It leaves out what changes with every update
(managedFields, resourceVersion, generation) and copies of the object in annotations
(last-applied-configuration), unless --all-fields is given. json has one line for each
change, with a JSON Patch (RFC 6902) from the object before to the object after.

On a terminal, long differences are folded unless -o diff is given, and long answers go
through the pager in PAGER. If no TYPE is named, Leases, Events and heartbeats of Nodes
are left out unless --all is given.

--where is an expression in CEL (https://cel.dev). It may use before and after (the
object, or null), op ("c", "u", "d", "r"), resource, ns (the namespace), name, and by
(the user who made the change, or "" if that is not one certain user). Changes to which
it does not apply are left out, for instance if the object lacks a field that it names.
Test for a field with has(after.spec.replicas).

Who made a change comes from the API server's audit events, if the exporter gets them
(docs/who.md). stderr says since when. json has the grade: exact, one of, probable,
manager or unknown. --by also shows changes that the user may have made. In a history
it also shows what was deleted because the user deleted an owner.
` + logHelp

// changes are the flags of history and tail, and what both need to read and print changes.
type changes struct {
	pastFlags
	since, where     string
	user             string
	follow           bool
	begin            moment.Moment // the value of since
	filter           *query.Filter
	hasWarned        bool // the filter did not apply to some change
	labelled         *sinks.Labelled
	late             timeline.Late // when streams were read late
	requests         *who.Requests
	unmatched        who.Unmatched
	chain            query.Chain
	refreshed        time.Time
	showsBookkeeping bool
	namesTypes       bool            // the arguments name resources
	omitted          int             // number of changes that are bookkeeping, and not shown
	answered         map[string]bool // objects of which there are changes, by resource and name
	ops              []string
	ends             time.Time // with the cluster's clock, later changes are left out, unless it is zero
	printer
}

const allFields = "also show managedFields, resourceVersion, generation and copies of the object"

func (t *changes) flags(c *cobra.Command, first, second string) *cobra.Command {
	c.Flags().StringVar(&t.since, "since", "", "where to begin: a time, how long ago (2h), or a checkpoint")
	t.clockFlag(c, "logged")
	c.Flags().StringVar(&t.where, "where", "", "an expression in CEL that selects changes")
	c.Flags().StringVar(&t.user, "by", "", "only changes that this user has made, or may have made: alice, "+
		"system:serviceaccount:shop:web")
	cli.CompleteFlagFromLog(c, "by", usersOf)
	c.Flags().BoolVarP(&t.follow, "follow", "f", t.follow, "go on with new changes")
	c.Flags().BoolVar(&t.all, "all-fields", false, allFields)
	c.Flags().BoolVar(&t.showsBookkeeping, "all", false,
		"on a terminal also show Leases, Events and heartbeats of Nodes if no TYPE is named")
	return t.pastFlags.flags(c, first, second, "wide", "name", "json", "yaml", cli.JSONPath)
}

// open parses the flags, opens the log, and returns the selected objects.
func (t *changes) open(ctx context.Context, c *cobra.Command, args []string) (r sinks.ReadCloser, objects sinks.Objects,
	err error) {
	if err = t.checkClock(); err != nil {
		return nil, objects, err
	}
	if t.begin, err = cli.ParseMoment("--since", cmp.Or(t.since, "now"), cli.SinceForms); err != nil {
		return nil, objects, err
	}
	if t.where != "" {
		if t.filter, err = query.NewFilter(t.where); err != nil {
			return nil, objects, fault.Usage("--where: " + err.Error())
		}
	}
	if r, objects, err = t.pastFlags.open(ctx, c, args); err != nil {
		return nil, objects, err
	}
	if t.labelled, err = objects.Labelled(); err != nil {
		r.Close()
		return nil, objects, err
	}
	begin := timeline.TargetOf(t.begin, true)
	t.remarkMoment(c.ErrOrStderr(), "--since", t.since, begin, begin)
	t.printer.flags, t.colours = &t.pastFlags, t.newColours(c.OutOrStdout())
	t.namesTypes = len(objects.Resources) > 0
	t.events.NoPatch = t.screen != nil || t.Format == "diff" || t.Format == "wide"
	return r, objects, nil
}

// cover returns how far the log has the changes since --since, and what may be missing. It also finds out who made the changes.
func (t *changes) cover(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects) ([]timeline.Coverage,
	[]string, error) {
	coverage, missing, err := timeline.Covered(ctx, r, objects, t.begin.Time)
	if err == nil {
		t.late = timeline.LateAmong(coverage)
		err = t.readRequests(ctx, c, r, objects, timeline.HappenedSince(coverage, t.begin.Time))
	}
	return coverage, missing, err
}

// start returns the cut that --since names, and prints what the changes after it may lack.
func (t *changes) start(ctx context.Context, c *cobra.Command, r sinks.Reader, resources []string) (*sinks.Cut, error) {
	target := timeline.TargetOf(t.begin, true)
	cut, missing, err := query.TailStart(ctx, r, resources, target)
	if t.incomplete && errors.Is(err, sinks.ErrNotRetained) {
		return nil, t.printCoverage(c.ErrOrStderr(), target, nil, missing)
	}
	if err != nil {
		return nil, err
	}
	return cut, t.printCoverage(c.ErrOrStderr(), target, nil, missing)
}

// read visits the selected changes up to q.To, with who made each.
func (t *changes) read(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query,
	visit func(*sinks.Logged, *who.Who) error) error {
	show := cli.NewProgress(c.ErrOrStderr(), "reading", 0, nil)
	defer show.End()
	if wanted := q.Wanted; t.user != "" {
		touches := t.requests.MayHaveChanged(t.user)
		q.Wanted = func(l *sinks.Logged) bool { return (wanted == nil || wanted(l)) && touches(l) }
	}
	t.requests.Restart()
	t.labelled.Restart()
	t.unmatched, t.chain, t.omitted, t.answered, q.Progress = who.Unmatched{}, query.Chain{}, 0, map[string]bool{}, show.Report
	return r.Changes(ctx, q, func(l *sinks.Logged) error {
		if q.After == nil && l.Logged.Before(t.begin.Time) {
			return nil // what is left of batches before --since, in a log that does not go back so far
		}
		t.answered[change.ResourceOf(l.Stream.ID()).ID()+"/"+l.Name] = true
		if t.user == "" { // else others' changes are not read
			t.chain.Add(l)
		}
		requester := t.requests.Who(l)
		t.unmatched.Count(t.requests, l, requester)
		if happened, _ := l.Happened(); t.clock == "happened" && happened.Before(t.begin.Time) || !t.selects(show, l, requester) {
			return nil // what happened after --since was also logged after it
		}
		return visit(l, requester)
	})
}

// print prints past changes, then follows the log.
func (t *changes) print(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, past []line) error {
	t.remarkRequests(c.ErrOrStderr(), t.requests)
	if t.unmatched.Changes > 0 && t.user == "" {
		t.addRemark(c.ErrOrStderr(), t.unmatched.Text(t.clockOf))
	}
	if t.chain.Lacks != "" {
		t.addRemark(c.ErrOrStderr(), t.chain.Lacks)
	}
	if t.omitted > 0 {
		t.addRemark(c.ErrOrStderr(), "left out: Leases, Events and heartbeats of Nodes, "+humanize.Comma(int64(t.omitted))+
			" in all (--all shows them)")
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
	return cli.UntilStopped(r.Changes(ctx, q, func(l *sinks.Logged) error { return t.printNext(ctx, c, r, out, l) }))
}

// printNext prints a new change.
func (t *changes) printNext(ctx context.Context, c *cobra.Command, r sinks.Reader, out io.Writer, l *sinks.Logged) error {
	if err := t.refresh(ctx, c, r, l); err != nil {
		return err
	}
	requester := t.requests.Who(l)
	if !t.selects(c.ErrOrStderr(), l, requester) || t.user != "" && !requester.Is(t.user) {
		return nil
	}
	text, err := t.change(l, requester)
	if err != nil {
		return err
	}
	return cli.Write(out, text)
}

// selects reports whether labels and expression select a change. On a terminal it leaves out bookkeeping. It warns once if the
// expression does not apply to a change.
func (t *changes) selects(errs io.Writer, l *sinks.Logged, requester *who.Who) bool {
	happened, _ := l.Happened()
	if !t.labelled.Selects(l) || len(t.ops) > 0 && !slices.Contains(t.ops, l.Op.String()) || t.clock == "happened" &&
		!t.ends.IsZero() && happened.After(t.ends) {
		return false
	}
	if t.screen != nil && !t.showsBookkeeping && !t.namesTypes && provenance.IsBookkeeping(&l.Change) {
		t.omitted++
		return false
	}
	if t.filter == nil {
		return true
	}
	selected, err := t.filter.Selects(l, requester)
	if err != nil && !t.hasWarned {
		t.hasWarned = true
		plain.Fprintf(errs, "# --where does not apply to some changes, which are left out; the first is a change of %s %s: %v\n",
			change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name), err)
	}
	return selected
}

// readRequests reads who made the changes that happened since a time. It returns a fault.Usage if --by needs audit events and the
// log has none.
func (t *changes) readRequests(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects,
	since time.Time) (err error) {
	t.refreshed = time.Now()
	if t.requests, err = who.ReadRequests(ctx, r, objects, since); err != nil {
		return err
	}
	if t.useLate(c); t.user != "" && !t.requests.Known() {
		return fault.Usage("--by: the log has no audit events, which say who made a change: docs/who.md says how to get them")
	}
	return nil
}

// useLate uses what the control records say.
func (t *changes) useLate(c *cobra.Command) {
	t.requests.Skips, t.requests.Ignores = t.late.Skips, t.ignores(c)
	t.events.ReadLate, t.requests.ReadLate = t.late.Has, t.late.Has
}

// forgetAfter is how long audit events are held for changes that are read later. A stream whose network has failed is read again
// within that time.
const forgetAfter = 15 * time.Minute

// refresh reads new audit events, at most once per second, and the control records of a new owner.
func (t *changes) refresh(ctx context.Context, c *cobra.Command, r sinks.Reader, l *sinks.Logged) (err error) {
	if time.Since(t.refreshed) < time.Second {
		return nil
	}
	t.requests.Forget(t.refreshed.Add(-forgetAfter))
	t.refreshed = time.Now()
	if t.requests.Known() && !t.late.Knows(l) {
		if t.late, err = timeline.LateSince(ctx, r, l.Logged); err != nil {
			return err
		}
		t.useLate(c)
	}
	return t.requests.Refresh(ctx)
}
