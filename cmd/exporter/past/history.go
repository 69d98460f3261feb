package past

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
	"kubecdc/query"
	"kubecdc/sinks"
)

var historyHelp = `Show every change of objects: when, what, and by whom.

  exporter history deploy web -n shop
  exporter history -A -l app=web --since 2h
  exporter history cm/app -n shop --follow
  exporter history no/worker-1 -o json | jq .patch
  exporter history --by alice --since 24h

Changes of several objects are in the order in which they happened. By whom: the user,
if the API server's audit events tell, and the field managers whose entry in the
object's managedFields changed. Nothing in an object tells who deleted it; the history
says if its owner or its namespace was deleted before, as far as the log has these. Without --since it begins where the log does.

An inferred change was found by comparing two states after a gap: it may stand for
several. Changes that are not in the log any more, and updates that the settings
ignore, are not shown; stderr says from which resourceVersion on the log has every
change.
` + changesHelp

// history prints changes in the order in which they happened, with the reasons of deletions.
type history struct{ changes }

// NewHistory returns the command exporter history.
func NewHistory() *cobra.Command {
	t := &history{changes{printer: printer{teller: query.EventMaker{Remember: true}}}}
	t.incomplete = true // a history has what there is
	c := t.flags(&cobra.Command{Use: "history " + cli.ObjectsUse + " [flags]", Short: "Show every change of objects", Long: historyHelp},
		"diff", "table")
	c.RunE = func(c *cobra.Command, args []string) error { return notKept(t.run(c.Context(), c, args)) }
	return c
}

func (t *history) run(ctx context.Context, c *cobra.Command, args []string) error {
	r, of, err := t.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer r.Close()
	t.titled, t.bodies = len(of.Names) != 1 || of.Namespace == "", t.since != ""
	if err := t.readRequests(ctx, c, r, &of, t.begin.Time); err != nil {
		return err
	}
	coverage, missing, err := query.Covered(ctx, r, &of)
	if err != nil {
		return err
	}
	if err := t.printCoverage(c.ErrOrStderr(), query.Target{}, coverage, missing); err != nil {
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
	if len(past) == 0 && len(of.Names) > 0 && !t.follow {
		text := fmt.Sprintf("the log has no such change of %s%s", strings.Join(of.Names, ", "), inNamespace(of.Namespace))
		return nothing(ctx, r, &of, coverage, text)
	}
	return t.print(ctx, c, r, q, past)
}

// past reads the changes that the log has, and sorts them.
func (t *history) past(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) (_ []line, err error) {
	switch {
	case t.since != "" && t.begin == moment.Moment{}: // now
		return nil, nil
	case t.since != "":
		if q.After, err = t.after(ctx, c, r, q.Resources); err != nil {
			return nil, err
		}
	}
	var past lines
	var deletions []*deletion
	err = t.read(ctx, c, r, q, func(l *sinks.Logged, by *query.Who) error {
		at, _ := l.Happened()
		now, _ := past.begin(l, at)
		if isCaused := l.Op == change.Delete && (by != nil || t.Format == "diff"); isCaused {
			l = owned(l)
			e, err := t.event(l, by)
			deletions = append(deletions, &deletion{query.DeletionOf(l, by), l, e})
			now.deletion = deletions[len(deletions)-1]
			past.add(now)
			return err
		}
		e, err := t.event(l, by)
		if err != nil || t.by != "" && !by.Is(t.by) {
			return err
		}
		now.text, err = t.text(l, e)
		past.add(now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.caused(ctx, r, past.sorted(), deletions)
}

// deletion is a deletion whose text is made once its cause is known.
type deletion struct {
	*query.Deletion
	change *sinks.Logged
	event  *query.Event
}

// caused finds the causes of deletions, makes their texts, and drops those that are not of the user who is asked for.
func (t *history) caused(ctx context.Context, r sinks.Reader, all []line, deletions []*deletion) ([]line, error) {
	var asked []*query.Deletion
	for _, d := range deletions {
		asked = append(asked, d.Deletion)
	}
	if err := query.Causes(ctx, r, asked); err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, l := range all {
		if d := l.deletion; d != nil {
			if t.by != "" && !d.Requester.Is(t.by) {
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
