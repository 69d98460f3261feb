package main

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change/moment"
	"kubecdc/query"
	"kubecdc/sinks"
)

const sinceForms = moment.Times | moment.Checkpoints

var tailHelp = `Show changes as the log gets them, as kubectl get --watch does, but of several
types, from any moment on, and with what each changed.

  exporter tail
  exporter tail -n 20
  exporter tail po,deploy -n shop -o diff
  exporter tail --since 2h --follow=false secrets
  exporter tail deploy --where 'op == "u" && before.spec.replicas > after.spec.replicas'
  exporter tail no -o jsonpath='{.name} {.op}'

--since is one of
` + sinceForms.Help() + `

A time means when the log got the changes. Without --since the tail begins now; with
-n 20 (--lines) it begins with the last 20 changes. json and yaml have the whole change,
with before and after.
` + changeHelp + logHelp

// namespaceOrLines is the flag -n of the command tail: a namespace, as in all commands, or how many changes, as in tail(1). The
// namespace of a number is still to be had by --where.
type namespaceOrLines struct{ *changes }

func (n namespaceOrLines) String() string { return "" }
func (n namespaceOrLines) Type() string   { return "string" }
func (n namespaceOrLines) Set(text string) error {
	lines, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		n.namespace = text
		return nil
	}
	n.last = int(lines)
	return nil
}

func newTail() *cobra.Command {
	t := &changes{follow: true}
	c := &cobra.Command{
		Use:   "tail " + objectsUse + " [flags]",
		Short: "Show changes as the log gets them",
		Long:  tailHelp,
		RunE:  func(c *cobra.Command, args []string) error { return t.tail(c.Context(), c, args) },
	}
	f := c.Flags()
	f.StringVar(&t.since, "since", "", "the moment to begin at")
	f.BoolVar(&t.incomplete, "incomplete", false, "answer although something may be missing")
	f.IntVar(&t.last, "lines", 0, "begin with so many of the last changes; -n 20 does it too")
	t.flags(c, "table")
	n := f.Lookup("namespace")
	n.Value, n.Usage = namespaceOrLines{t}, n.Usage+"; a number is --lines"
	return c
}

func (t *changes) tail(ctx context.Context, c *cobra.Command, args []string) error {
	since, err := parseMoment("--since", cmp.Or(t.since, "now"), sinceForms)
	if err != nil {
		return err
	}
	reader, of, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := t.prepare(c, &of); err != nil {
		return err
	}
	end, err := reader.End(ctx)
	if err != nil {
		return err
	}
	q := of.Query()
	var past []line
	if t.since == "" && t.last > 0 {
		past, err = t.newest(ctx, c, reader, q, &end)
	} else {
		past, err = t.from(ctx, c, reader, q, query.TargetOf(since, true), &end)
	}
	if err == nil {
		err = t.print(ctx, c, reader, q, past, &end)
	}
	return notKept(err)
}

// from reads what was logged from a moment on.
func (t *changes) from(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, from query.Target, end *sinks.Cut) ([]line, error) {
	if from == (query.Target{}) {
		return nil, nil
	}
	after, missing, err := query.Start(ctx, r, q.Resources, from)
	if err != nil {
		return nil, err
	}
	if err := t.printCoverage(c.ErrOrStderr(), from, nil, missing); err != nil {
		return nil, err
	}
	q.After = after
	return t.past(ctx, c, r, q, end)
}

// newest reads the last changes: in ever longer times before now, until there are enough, or the log has no more.
func (t *changes) newest(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, end *sinks.Cut) ([]line, error) {
	for _, back := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour} {
		cut, err := r.At(ctx, time.Now().Add(-back))
		if err == nil {
			q.After = &cut
			var past []line
			if past, err = t.past(ctx, c, r, q, end); len(past) == t.last {
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
	return t.past(ctx, c, r, q, end)
}
