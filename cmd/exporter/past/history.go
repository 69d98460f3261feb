package past

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

var historyHelp = `Show every change of objects: when, what, and by whom.

  exporter history deploy web -n shop
  exporter history -A -l app=web --since 2h
  exporter history cm/app -n shop --follow
  exporter history no/worker-1 -o json | jq .patch
  exporter history --by alice --since 24h
  exporter history -n shop --since 1h --until 30m

On a terminal, what followed by itself is folded: changes of a status, of what an owner
controls, and those that one script made to many objects. Such a line has … and says how
the columns of kubectl get changed. --status shows each change.

Changes of several objects come in the order in which they happened. By whom is the
user, if the API server's audit events show it, and the field managers whose entries in
managedFields changed. An object does not record who deleted it. But the history says if
its owner or its namespace was deleted before, if the log has these. Without --since it
begins at the start of the log.

An inferred change was found by comparing two states after a gap, so it may stand for
several. Pruned changes, and updates that the settings ignore, are not shown. stderr says
from which resourceVersion on the log has every change.
` + changesHelp

// history prints changes in the order in which they happened, with the reasons of deletions.
type history struct {
	changes
	showsStatus bool
	until       string
}

// NewHistory returns the command exporter history.
func NewHistory() *cobra.Command {
	t := &history{changes: changes{printer: printer{events: query.EventMaker{Remember: true}}}}
	t.incomplete = true // a history shows what the log has
	c := t.flags(&cobra.Command{Use: "history " + cli.ObjectsUse + " [flags]", Short: "Show every change of objects",
		Long: historyHelp},
		"diff", "table")
	c.Flags().StringVar(&t.until, "until", "", "where to end: a time, or how long ago (1h)")
	c.Flags().StringSliceVar(&t.ops, "op", nil, "only these changes: c (created), u (updated), d (deleted), r (listed)")
	_ = c.RegisterFlagCompletionFunc("op", cobra.FixedCompletions(allOps, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().BoolVar(&t.showsStatus, "status", false,
		"on a terminal show each change, also those of a status and of what an owner controls")
	c.RunE = forEach(func() (question, *pastFlags) {
		own := *t
		return own.run, &own.pastFlags
	}, &t.follow)
	return c
}

func (t *history) run(ctx context.Context, c *cobra.Command, args []string) error {
	r, objects, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := t.readEnd(); err != nil {
		return err
	}
	until := timeline.Target{Logged: t.ends}
	t.remarkMoment(c.ErrOrStderr(), "--until", t.until, until, until)
	t.hasTitles, t.hasBodies = len(objects.Names) != 1 || objects.Namespace == "", t.since != ""
	coverage, missing, err := t.cover(ctx, c, r, &objects)
	if err != nil {
		return err
	}
	if err := t.printCoverage(c.ErrOrStderr(), until, coverage, missing); err != nil {
		return err
	}
	q := objects.Query()
	to, err := r.CutAt(ctx, t.loggedBy(t.ends))
	if err != nil {
		return err
	}
	q.To = &to
	past, err := t.past(ctx, c, r, q)
	if err != nil {
		return err
	}
	if len(past) == 0 && !t.follow {
		if end := lastEnd(coverage); timeline.IsStale(end, asked(until)) && t.begin.Time.After(end) {
			return fmt.Errorf("the log ends at %s, and has nothing since %s: is exporter run stopped?", t.clockOf(end),
				t.clockOf(t.begin.Time))
		}
		if err := t.checkNothing(ctx, r, &objects, coverage); err != nil {
			return err
		}
		if len(missing) == 0 && t.screen != nil {
			t.remarks = slices.Insert(t.remarks, 0, t.nothing(&objects))
		}
	}
	if err := t.print(ctx, c, r, q, past); err != nil || t.follow || len(past) == 0 {
		return err
	}
	return checkKnown(ctx, r, &objects, coverage, t.answered)
}

// checkNothing returns an error for an answer without changes if it is about something that the log does not know.
func (t *history) checkNothing(ctx context.Context, r sinks.Reader, objects *sinks.Objects, coverage []timeline.Coverage) error {
	if len(objects.Names) > 0 {
		text := fmt.Sprintf("the log has no such change of %s%s", strings.Join(objects.Names, ", "),
			inNamespace(objects.Namespace))
		return notFound(ctx, r, objects, coverage, text)
	}
	if err := t.requests.CheckUser(t.user); err != nil {
		return err
	}
	return checkKnown(ctx, r, objects, coverage, t.answered)
}

// nothing says that nothing changed in a place.
func (t *history) nothing(objects *sinks.Objects) string {
	text := "nothing changed"
	if objects.Namespace != "" {
		text += " in " + objects.Namespace
	}
	if !t.begin.Time.IsZero() && t.since != "" {
		text += " since " + t.clockOf(t.begin.Time)
	}
	if t.until != "" {
		text += " until " + t.clockOf(t.ends)
	}
	if t.user != "" || t.where != "" || len(t.ops) > 0 || objects.Selector != "" {
		text += ", of what is asked for"
	}
	return text
}

var allOps = []string{change.Create.String(), change.Update.String(), change.Delete.String(), change.Read.String()}

// readEnd reads --until and --op. It returns a fault.Usage if one is wrong.
func (t *history) readEnd() (err error) {
	for _, op := range t.ops {
		if !slices.Contains(allOps, op) {
			return fault.Usagef("--op is %q, but must be c, u, d or r, or several of them: c,d", op)
		}
	}
	if t.until == "" {
		return nil
	}
	if t.follow {
		return fault.Usage("--until ends the history, and --follow goes on: give one of them")
	}
	m, err := cli.ParseMoment("--until", t.until, moment.Times)
	if err == nil && !t.begin.Time.IsZero() && t.since != "" && m.Time.Before(t.begin.Time) {
		err = fault.Usagef("--until %s is before --since %s", t.until, t.since)
	}
	t.ends = m.Time
	return err
}

// loggedBy returns until when changes are read. By the cluster's clock, changes of a time may be logged at any later time.
func (t *history) loggedBy(until time.Time) time.Time {
	if t.clock == "happened" {
		return time.Time{}
	}
	return until
}

// past returns the changes in the log, sorted.
func (t *history) past(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) (_ []line, err error) {
	switch {
	case t.since != "" && t.begin == moment.Moment{}: // --since now
		return nil, nil
	case t.since != "":
		if q.After, err = t.start(ctx, c, r, q.Resources); err != nil {
			return nil, err
		}
	}
	if t.screen != nil && t.folded && !t.showsStatus {
		return t.incident(ctx, c, r, q)
	}
	var past lines
	var deletions []*deletion
	err = t.read(ctx, c, r, q, func(l *sinks.Logged, requester *who.Who) error {
		happened, _ := l.Happened()
		now, _ := past.newLine(l, happened)
		if isCaused := l.Op == change.Delete && (requester != nil || t.Format == "diff"); isCaused {
			l = clone(l)
			e, err := t.event(l, requester)
			deletions = append(deletions, &deletion{who.DeletionOf(l, requester), l, e})
			now.deletion = deletions[len(deletions)-1]
			past.add(now)
			return err
		}
		e, err := t.event(l, requester)
		if err != nil || t.user != "" && !requester.Is(t.user) {
			return err
		}
		now.text, err = t.text(l, e)
		past.add(now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.addCauses(ctx, r, past.sorted(), deletions)
}

// deletion is a deletion whose text is made when its cause is known.
type deletion struct {
	*who.Deletion
	change *sinks.Logged
	event  *query.Event
}

// addCauses finds the causes of deletions, and makes their texts. It drops deletions by other users than --by.
func (t *history) addCauses(ctx context.Context, r sinks.Reader, all []line, deletions []*deletion) ([]line, error) {
	var asked []*who.Deletion
	for _, d := range deletions {
		asked = append(asked, d.Deletion)
	}
	if err := who.Causes(ctx, r, asked); err != nil {
		return nil, err
	}
	wanted := all[:0]
	for _, l := range all {
		if d := l.deletion; d != nil {
			if t.user != "" && !d.Requester.Is(t.user) {
				continue
			}
			var err error
			if l.text, err = t.text(d.change, d.event); err != nil {
				return nil, err
			}
			if d.Cause != "" && t.Format == "diff" {
				l.text += plain.Sprintf("  %s\n", d.Cause)
			}
		}
		wanted = append(wanted, l)
	}
	return wanted, nil
}

// clone returns a copy that remains valid, without key and value, which no text shows.
func clone(l *sinks.Logged) *sinks.Logged {
	c := *l
	c.Key, c.Value, c.JSONKey, c.JSONValue, c.Headers = nil, nil, nil, nil, nil
	c = c.Clone()
	return &c
}
