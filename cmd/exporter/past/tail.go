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

var tailHelp = `Show changes as the log gets them, as kubectl get --watch does, but of several
types, from any moment on, and with what each changed.

  exporter tail
  exporter tail -n 20
  exporter tail po,deploy -n shop -o diff
  exporter tail --since 2h --follow=false secrets
  exporter tail deploy --where 'op == "u" && before.spec.replicas > after.spec.replicas'
  exporter tail no -o jsonpath='{.name} {.op}'

Without --since the tail begins now; with -n 20 (--lines) it begins with the last 20
changes. json and yaml have before and after, too.
` + changesHelp

// tail prints changes as they were logged, and then those that come.
type tail struct {
	changes
	last int // begins with so many of those that the log has; 0: with none
}

// namespaceOrLines is the flag -n of the command tail: a namespace, as in all commands, or how many changes, as in tail(1). The
// namespace of a number can still be selected by --where.
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
	t := &tail{changes: changes{follow: true, printer: printer{titled: true, bodies: true, logged: true}}}
	c := t.flags(&cobra.Command{Use: "tail " + cli.ObjectsUse + " [flags]", Short: "Show changes as the log gets them", Long: tailHelp},
		"table", "diff")
	c.RunE = func(c *cobra.Command, args []string) error { return notKept(t.run(c.Context(), c, args)) }
	c.Flags().BoolVar(&t.incomplete, "incomplete", false, "answer although something may be missing")
	c.Flags().IntVar(&t.last, "lines", 0, "begin with so many of the last changes; -n 20 does it too")
	n := c.Flags().Lookup("namespace")
	n.Value, n.Usage = namespaceOrLines{t}, n.Usage+"; a number is --lines"
	return c
}

func (t *tail) run(ctx context.Context, c *cobra.Command, args []string) error {
	if t.last < 0 {
		return fault.Usage("--lines: write a number of changes")
	}
	r, of, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer r.Close()
	asked := t.begin.Time
	if t.since == "" && t.last == 0 {
		asked = time.Now()
	}
	if err := t.readRequests(ctx, c, r, &of, asked); err != nil {
		return err
	}
	end, err := r.CutAt(ctx, time.Time{})
	if err != nil {
		return err
	}
	q := of.Query()
	q.To = &end
	past, err := t.past(ctx, c, r, q)
	if err != nil {
		return err
	}
	return t.print(ctx, c, r, q, past)
}

// past reads what the tail begins with.
func (t *tail) past(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) (past []line, err error) {
	switch {
	case t.begin != moment.Moment{}:
		if q.After, err = t.after(ctx, c, r, q.Resources); err != nil {
			return nil, err
		}
		return t.lines(ctx, c, r, q)
	case t.last > 0 && t.since == "":
		return t.newest(ctx, c, r, q)
	}
	return nil, nil
}

// newest reads the last changes: in ever longer times before now, until there are enough.
func (t *tail) newest(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) ([]line, error) {
	for _, back := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour} {
		cut, err := r.CutAt(ctx, time.Now().Add(-back))
		if errors.Is(err, sinks.ErrNotRetained) {
			break
		}
		if err != nil {
			return nil, err
		}
		q.After = &cut
		past, err := t.lines(ctx, c, r, q)
		if len(past) == t.last || err != nil && !errors.Is(err, sinks.ErrNotRetained) {
			return past, err
		}
	}
	q.After = nil
	return t.lines(ctx, c, r, q)
}

// lines reads the changes after a cut, in the order in which they were logged.
func (t *tail) lines(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) ([]line, error) {
	past := lines{most: t.last}
	err := t.read(ctx, c, r, q, func(l *sinks.Logged, by *query.Who) (err error) {
		now, wanted := past.begin(l, l.Logged)
		if !wanted || t.by != "" && !by.Is(t.by) {
			return nil
		}
		now.text, err = t.change(l, by)
		past.add(now)
		return err
	})
	return past.sorted(), err
}
