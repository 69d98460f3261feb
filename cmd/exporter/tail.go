package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/internal/plain"
	"kubecdc/internal/usage"
	"kubecdc/query"
	"kubecdc/sinks"
)

const sinceForms = moment.Times | moment.Checkpoints

var tailHelp = `Show changes as the log gets them, as kubectl get --watch does, but of several
resources, from any moment on, and with what each changed.

  exporter tail
  exporter tail pods deployments.apps -n shop -o diff
  exporter tail --since 2h --follow=false secrets
  exporter tail deployments.apps --where 'op == "u" && before.spec.replicas > after.spec.replicas'
  exporter tail nodes -o json | jq -r .name

--since is one of
` + sinceForms.Help() + `

A time means when the log got the changes. Without --since the tail begins now.

--where is an expression in CEL (https://cel.dev) over before and after (the object,
or null), op ("c", "u", "d", "r"), resource, ns (the namespace) and name. A change
to which it does not apply, such as that of an object without a field that it names,
is left out: has(after.spec.replicas) asks first.

json and yaml have the whole change: what history -o json shows, with before and
after. RESOURCE is named as in KUBECDC_RESOURCES; the group may be left out. No API
server is needed if KUBECDC_CLUSTER or a kubeconfig names the cluster.`

// tailing has the flags of the command tail.
type tailing struct {
	pastFlags
	since, where string
	follow       bool
	filter       *query.Filter
	told         bool // that the filter does not apply to some changes
}

func newTail() *cobra.Command {
	t := &tailing{}
	c := &cobra.Command{
		Use:   "tail [RESOURCE...] [flags]",
		Short: "Show changes as the log gets them",
		Long:  tailHelp,
		RunE:  func(c *cobra.Command, resources []string) error { return t.run(c.Context(), c, resources) },
	}
	c.Flags().StringVar(&t.since, "since", "now", "the moment to begin at")
	c.Flags().StringVar(&t.where, "where", "", "an expression in CEL that selects changes")
	c.Flags().BoolVarP(&t.follow, "follow", "f", true, "go on with the changes that come")
	c.Flags().BoolVar(&t.incomplete, "incomplete", false, "answer although something may be missing")
	return t.flags(c, false, "table", "diff", "json", "yaml")
}

func (t *tailing) run(ctx context.Context, c *cobra.Command, resources []string) error {
	since, err := parseMoment("--since", t.since, sinceForms)
	if err != nil {
		return err
	}
	from := query.TargetOf(since, true)
	if t.where != "" {
		if t.filter, err = query.NewFilter(t.where); err != nil {
			return usage.Error("--where: " + err.Error())
		}
	}
	reader, err := openReader(ctx, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	for i, name := range resources {
		if resources[i], err = resourceID(ctx, reader, name); err != nil {
			return err
		}
	}
	after, missing, err := query.Start(ctx, reader, resources, from)
	if err != nil {
		return notKept(err)
	}
	if err := t.printCoverage(c.ErrOrStderr(), from, nil, missing); err != nil {
		return err
	}
	q := sinks.Query{Resources: resources, Namespace: t.namespace, After: after}
	err = notKept(t.print(ctx, c, reader, q))
	if t.follow {
		return untilStopped(err)
	}
	return err
}

// print prints what the log has, in the order of time, then what comes.
func (t *tailing) print(ctx context.Context, c *cobra.Command, reader sinks.Reader, q sinks.Query) error {
	end, err := reader.End(ctx)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	if t.output == "table" {
		plain.Fprintf(out, tableRow, "LOGGED", "CHANGE", "VERSION", "RESOURCE", "OBJECT")
	}
	teller, colours, past := t.teller(), newColours(terminal(out)), []line{}
	show := newProgress(c.ErrOrStderr(), "reading", 0, nil)
	q.To, q.Progress = &end, show.at
	err = reader.Changes(ctx, q, func(l *sinks.Logged) error {
		if !t.selects(show, l) {
			return nil
		}
		text, err := t.text(l, teller, colours)
		past = append(past, line{l.Logged, text})
		return err
	})
	show.end()
	if err != nil {
		return err
	}
	slices.SortStableFunc(past, func(a, b line) int { return a.logged.Compare(b.logged) })
	for _, l := range past {
		if err := write(out, l.text); err != nil {
			return err
		}
	}
	if past = nil; !t.follow {
		return nil
	}
	q.After, q.To, q.Follow, q.Progress = &end, nil, true, nil
	return reader.Changes(ctx, q, func(l *sinks.Logged) error {
		if !t.selects(c.ErrOrStderr(), l) {
			return nil
		}
		text, err := t.text(l, teller, colours)
		if err == nil {
			err = write(out, text)
		}
		return err
	})
}

// line is a printed change. The past is printed when all of it was read, since a log has no order over its partitions.
type line struct {
	logged time.Time
	text   plain.Own
}

// selects says once that the filter does not apply to some change.
func (t *tailing) selects(errs io.Writer, l *sinks.Logged) bool {
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

// whole is a change as json and yaml have it.
type whole struct {
	*query.Event
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

const tableRow = "%-20s  %-8s  %-12s  %-30s  %s\n"

func (t *tailing) teller() *query.Teller {
	if t.output == "diff" {
		return &query.Teller{Ignore: query.Bookkeeping}
	}
	return &query.Teller{}
}

// text is a change as it is printed.
func (t *tailing) text(l *sinks.Logged, teller *query.Teller, colours *colours) (plain.Own, error) {
	resource, object := change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name)
	if t.output == "table" {
		return plain.Sprintf(tableRow, l.Logged.UTC().Format(time.RFC3339), l.Op.Past(), l.ResourceVersion,
			resource, object), nil
	}
	event, err := teller.Event(l)
	if err != nil {
		return "", err
	}
	if t.output == "diff" {
		return colours.event(event, resource+" "+object+"  "), nil
	}
	return document(t.output, &whole{event, change.OrNull(l.Before), change.OrNull(l.After)})
}
