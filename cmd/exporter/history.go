package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change/moment"
	"kubecdc/query"
	"kubecdc/sinks"
)

var historyHelp = `Show every change of objects: when, what, and by whom.

  exporter history deploy web -n shop
  exporter history -A -l app=web --since 2h
  exporter history cm/app -n shop --follow
  exporter history no/worker-1 -o json | jq .patch

Changes of several objects are in the order in which they happened. By whom: the field
managers whose entry in the object's managedFields changed. Of a deletion nothing in
the object tells by whom; the history tells whether its owner or its namespace was
deleted before, as far as the log has these. What changes with every update
(managedFields, resourceVersion, generation) is left out, unless --all-fields is given.

An inferred change was found by comparing two states after a gap: it may stand for
several. Changes that are not in the log any more, and updates that the settings
ignore, are not shown; stderr says from which resourceVersion on the log has every
change.

--since is one of
` + sinceTimes.Help() + `

A time means when things happened.
` + changeHelp + logHelp

const sinceTimes = moment.Times

func newHistory() *cobra.Command {
	t := &changes{byHappened: true, teller: query.Teller{Remember: true}}
	c := &cobra.Command{
		Use:   "history " + objectsUse + " [flags]",
		Short: "Show every change of objects",
		Long:  historyHelp,
		RunE:  func(c *cobra.Command, args []string) error { return t.history(c.Context(), c, args) },
	}
	c.Flags().StringVar(&t.since, "since", "", "only what happened then or later: a time, or how long ago (7d)")
	return t.flags(c, "diff")
}

func (t *changes) history(ctx context.Context, c *cobra.Command, args []string) error {
	var since time.Time
	if t.since != "" {
		m, err := parseMoment("--since", t.since, sinceTimes)
		if err != nil {
			return err
		}
		since = m.Time
	}
	reader, of, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := t.prepare(c, &of); err != nil {
		return err
	}
	coverage, missing, err := query.Covered(ctx, reader, &of)
	if err != nil {
		return err
	}
	t.incomplete = true // a history has what there is
	if err := t.printCoverage(c.ErrOrStderr(), query.Target{}, coverage, missing); err != nil {
		return err
	}
	q, end, err := t.historyOf(ctx, reader, &of, since)
	if err != nil {
		return notKept(err)
	}
	past, err := t.past(ctx, c, reader, q, end)
	if err == nil && len(past) == 0 && len(of.Names) > 0 && !t.follow {
		return fmt.Errorf("the log has no such change of %s%s", strings.Join(of.Names, ", "), inNamespace(of.Namespace))
	}
	if err == nil {
		err = t.print(ctx, c, reader, q, past, end)
	}
	return notKept(err)
}

// historyOf selects changes that happened at a time or later. They were logged after that.
func (t *changes) historyOf(ctx context.Context, r sinks.Reader, of *sinks.Objects, since time.Time) (q sinks.Query, to *sinks.Cut, err error) {
	q = of.Query()
	end, err := r.End(ctx)
	if err != nil || since.IsZero() {
		return q, &end, err
	}
	cut, err := r.At(ctx, since.Add(-time.Minute)) // clocks differ
	if err == nil {
		q.After = &cut
	} else if !errors.Is(err, sinks.ErrNotKept) {
		return q, nil, err
	}
	q.Wanted = func(l *sinks.Logged) bool {
		happened, _ := l.Happened()
		return of.Has(l) && !happened.Before(since)
	}
	return q, &end, nil
}

// inNamespace names a namespace, or none.
func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}
