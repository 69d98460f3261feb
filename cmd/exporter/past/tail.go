package past

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
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
	c := t.flags(&cobra.Command{Use: "tail " + cli.ObjectsUse + " [flags]", Short: "Show changes as the log gets them",
		Long: tailHelp},
		"table", "diff")
	c.RunE = forEach(func() (question, *pastFlags) {
		own := *t
		return own.run, &own.pastFlags
	}, &t.follow)
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
	if len(past) == 0 && r.FindsObjects() { // else this would read all of the log
		if err := checkKnown(ctx, r, &objects, nil, nil); err != nil {
			plain.Fprintf(c.ErrOrStderr(), "# %s\n", strings.ReplaceAll(err.Error(), "\n", ": ")+" (it may come)")
		}
	}
	return t.print(ctx, c, r, q, past)
}

// past returns the changes that the tail begins with, and prints what may be missing among them.
func (t *tail) past(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects, q sinks.Query) (past []line,
	err error) {
	switch {
	case t.begin != moment.Moment{}:
		if q.After, err = t.start(ctx, c, r, q.Resources); err != nil {
			return nil, err
		}
		coverage, missing, err := t.cover(ctx, c, r, objects)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			t.remarkMissing(c.ErrOrStderr(), coverage, missing)
		}
		return t.lines(ctx, c, r, q, t.begin.Time)
	case t.last > 0 && t.since == "":
		return t.newest(ctx, c, r, objects, q)
	}
	if err = t.readRequests(ctx, c, r, objects, time.Now()); err != nil || !t.requests.Known() {
		return nil, err
	}
	t.late, err = timeline.LateSince(ctx, r, time.Now())
	t.useLate(c)
	return nil, err
}

// newest returns the last changes. It finds a time that has enough of them, and then reads who made the changes of that time, and
// which were read late. So it does not depend on how long the log is. If the requested user has made too few of them, it tries a
// longer time.
func (t *tail) newest(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects, q sinks.Query) (past []line,
	err error) {
	for back := time.Minute; ; back *= 8 {
		since, all := time.Now().Add(-back), back > 30*24*time.Hour
		if !all {
			cut, err := r.CutAt(ctx, since)
			if all = errors.Is(err, sinks.ErrNotRetained); err != nil && !all {
				return nil, err
			}
			q.After = &cut
		}
		if all {
			since, q.After = time.Time{}, nil
		}
		n, happened, err := t.count(ctx, c, r, q, since)
		if !all && (errors.Is(err, sinks.ErrNotRetained) || err == nil && n < t.last) {
			continue
		}
		if err == nil {
			err = t.readRequests(ctx, c, r, objects, happened)
		}
		if err != nil {
			return nil, err
		}
		if past, err = t.lines(ctx, c, r, q, since); err != nil || all || len(past) >= t.last {
			return past, err
		}
	}
}

// count counts the changes of all users, and finds out which were read late. It returns the earliest time at which they may have
// happened.
func (t *tail) count(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, since time.Time) (n int,
	happened time.Time, err error) {
	counting := *t
	counting.user, counting.requests = "", nil
	if strings.Contains(t.where, "by") {
		counting.filter = nil
	}
	seen, recovered := time.Now(), false
	err = counting.read(ctx, c, r, q, func(l *sinks.Logged, _ *who.Who) error {
		n++
		if recovered = recovered || l.Gap != ""; l.Time.Before(seen) {
			seen = l.Time
		}
		return nil
	})
	if t.hasWarned = counting.hasWarned; err != nil || n < t.last && !since.IsZero() {
		return n, since, err
	}
	if t.late, err = timeline.LateSince(ctx, r, seen); since.IsZero() || recovered {
		return n, time.Time{}, err
	}
	if seen.Before(since) {
		since = seen
	}
	return n, t.late.Since(since), err
}

// lines returns the changes after a cut, in the order of the log. The cut is at a time, or has no time.
func (t *tail) lines(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, since time.Time) ([]line, error) {
	order, err := timeline.ReadOrder(ctx, r, since)
	if err != nil {
		return nil, err
	}
	past := lines{most: t.last, order: order}
	err = t.read(ctx, c, r, q, func(l *sinks.Logged, requester *who.Who) (err error) {
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
