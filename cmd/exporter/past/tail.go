package past

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/query"
	"kubecdc/sinks"
)

var tailHelp = `Show changes as the log gets them. Unlike kubectl get --watch it shows several types,
from any moment on, and what changed.

  exporter tail
  exporter tail -n 20
  exporter tail po,deploy -n shop -o diff
  exporter tail --since 2h --follow=false secrets
  exporter tail deploy --where 'op == "u" && before.spec.replicas > after.spec.replicas'
  exporter tail no -o jsonpath='{.name} {.op}'

Without --since the tail begins now. -n 20 (--lines) begins with the last 20 changes.
json and yaml also have before and after.
` + changesHelp

// tail prints changes in the order of the log, then new ones.
type tail struct {
	changes
	last int // number of logged changes to begin with
}

// namespaceOrLines is the flag -n of exporter tail: a namespace, as in all commands, or a number of changes, as in tail(1). A
// namespace that is a number can be selected by --where.
type namespaceOrLines struct{ *tail }

func (n namespaceOrLines) String() string { return "" }
func (n namespaceOrLines) Type() string   { return "string" }
func (n namespaceOrLines) Set(text string) error {
	lines, err := strconv.Atoi(text)
	if err != nil {
		n.Namespace = text
		return nil
	}
	if lines < 0 {
		return errors.New("write a number of changes, or a namespace")
	}
	n.last = lines
	return nil
}

// NewTail returns the command exporter tail.
func NewTail() *cobra.Command {
	t := &tail{changes: changes{follow: true, printer: printer{hasTitles: true, hasBodies: true, showsLogged: true}}}
	c := t.flags(&cobra.Command{Use: "tail " + cli.ObjectsUse + " [flags]", Short: "Show changes as the log gets them", Long: tailHelp},
		"table", "diff")
	c.RunE = func(c *cobra.Command, args []string) error { return withRetentionHint(t.run(c.Context(), c, args)) }
	c.Flags().BoolVar(&t.incomplete, "incomplete", false, "answer although something may be missing")
	c.Flags().IntVar(&t.last, "lines", 0, "begin with this many of the last changes, as -n 20 does")
	n := c.Flags().Lookup("namespace")
	n.Value, n.Usage = namespaceOrLines{t}, n.Usage+"; a number is --lines"
	return c
}

func (t *tail) run(ctx context.Context, c *cobra.Command, args []string) error {
	if t.last < 0 {
		return fault.Usage("--lines: give a number of changes, not below 0")
	}
	r, objects, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer r.Close()
	asked := t.begin.Time
	if t.since == "" && t.last == 0 {
		asked = time.Now()
	}
	if !t.beginsWithLast() || t.user != "" { // otherwise newest reads what it needs
		if err := t.readRequests(ctx, c, r, &objects, asked); err != nil {
			return err
		}
	}
	end, err := r.CutAt(ctx, time.Time{})
	if err != nil {
		return err
	}
	q := objects.Query()
	q.To = &end
	past, err := t.past(ctx, c, r, &objects, q)
	if err != nil {
		return err
	}
	return t.print(ctx, c, r, q, past)
}

// past returns the changes that the tail begins with, and prints what may be missing among them.
func (t *tail) past(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects, q sinks.Query) (past []line, err error) {
	switch {
	case t.begin != moment.Moment{}:
		if q.After, err = t.start(ctx, c, r, q.Resources); err != nil {
			return nil, err
		}
		coverage, missing, err := t.cover(ctx, r, objects)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			t.remarkMissing(c.ErrOrStderr(), coverage, missing)
		}
		return t.lines(ctx, c, r, q)
	case t.beginsWithLast():
		return t.newest(ctx, c, r, objects, q)
	}
	return nil, nil
}

func (t *tail) beginsWithLast() bool { return t.last > 0 && t.since == "" }

// newest returns the last changes. It finds the time that has them, and then reads who made the changes of that time, and which were read
// late. So it does not depend on how long the log is.
func (t *tail) newest(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects, q sinks.Query) ([]line, error) {
	since, seen, err := t.findLast(ctx, c, r, &q)
	if err == nil && t.user == "" {
		err = t.readRequests(ctx, c, r, objects, since)
	}
	if err != nil {
		return nil, err
	}
	late, err := query.LateSince(ctx, r, seen)
	if err != nil {
		return nil, err
	}
	t.setReadLate(late)
	return t.lines(ctx, c, r, q)
}

// findLast makes the query begin at a time since which there are enough changes. It returns that time, and when the first of them was
// seen. It tries ever longer times, and returns a zero time if all of the log has too few.
func (t *tail) findLast(ctx context.Context, c *cobra.Command, r sinks.Reader, q *sinks.Query) (since, seen time.Time, err error) {
	enough := func() (bool, error) {
		n := 0
		seen = time.Now()
		err := t.read(ctx, c, r, *q, func(l *sinks.Logged, requester *query.Who) error {
			if t.user == "" || requester.Is(t.user) {
				n++
				if l.Time.Before(seen) {
					seen = l.Time
				}
			}
			return nil
		})
		return n >= t.last, err
	}
	for back := time.Minute; back < 30*24*time.Hour; back *= 8 {
		since = time.Now().Add(-back)
		cut, err := r.CutAt(ctx, since)
		if errors.Is(err, sinks.ErrNotRetained) {
			break
		}
		if err != nil {
			return since, seen, err
		}
		q.After = &cut
		if found, err := enough(); found || err != nil && !errors.Is(err, sinks.ErrNotRetained) {
			return since, seen, err
		}
	}
	q.After = nil
	_, err = enough()
	return time.Time{}, seen, err
}

// lines returns the changes after a cut, in the order in which they were logged.
func (t *tail) lines(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) ([]line, error) {
	past := lines{most: t.last}
	err := t.read(ctx, c, r, q, func(l *sinks.Logged, requester *query.Who) (err error) {
		now, wanted := past.newLine(l, l.Logged)
		if !wanted || t.user != "" && !requester.Is(t.user) {
			return nil
		}
		now.text, err = t.change(l, requester)
		past.add(now)
		return err
	})
	return past.sorted(), err
}
