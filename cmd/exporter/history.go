package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/query"
	"kubecdc/sinks"
)

const historyHelp = `Show every change of one object: when, what, and by whom.

  exporter history deployments.apps web -n shop
  exporter history configmaps app -n shop --follow
  exporter history nodes worker-1 -o json | jq .patch

By whom: the field managers whose entry in the object's managedFields changed.
The text leaves out what changes with every update (managedFields, resourceVersion,
generation), unless --all-fields is given. json is one line for each change, with a
whole JSON Patch (RFC 6902) from the object before to the object after it.

An inferred change was found by comparing two states after a gap: it may stand for
several. Changes that are not in the log any more, and updates that the settings
ignore, are not shown; stderr says from which resourceVersion on the log has every
change.

RESOURCE is named as in KUBECDC_RESOURCES (pods, deployments.apps); the group may be
left out if the log has one such resource. Without -n the namespace is default. No API
server is needed if KUBECDC_CLUSTER or a kubeconfig names the cluster.`

func newHistory() *cobra.Command {
	p, follow, all := &pastFlags{}, false, false
	c := &cobra.Command{
		Use:   "history RESOURCE NAME [flags]",
		Short: "Show every change of one object",
		Long:  historyHelp,
		Args:  argCount(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return p.history(c.Context(), c, args, follow, all)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with the changes that come")
	c.Flags().BoolVar(&all, "all-fields", false, "show managedFields, resourceVersion and generation too")
	return p.flags(c, false, "diff", "json", "yaml")
}

func (p *pastFlags) history(ctx context.Context, c *cobra.Command, args []string, follow, all bool) error {
	reader, err := openReader(ctx, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	resource, err := resourceID(ctx, reader, args[0])
	if err != nil {
		return err
	}
	namespace, err := p.object(ctx, reader, resource)
	if err != nil {
		return err
	}
	show, found := p.printer(c.OutOrStdout(), all), false
	covered := func(h *query.History) error {
		p.incomplete = true // a history has what there is
		return p.printCoverage(c.ErrOrStderr(), query.Target{}, h.Coverage, h.Missing)
	}
	err = query.ReadHistory(ctx, reader, resource, namespace, args[1], follow, covered, func(l *sinks.Logged) error {
		found = true
		return show(l)
	})
	if err == nil && !found {
		return fmt.Errorf("the log has no change of %s %s in namespace %q", resource, args[1], namespace)
	}
	if follow {
		err = untilStopped(err)
	}
	return notKept(err)
}

// printer prints changes one by one.
func (p *pastFlags) printer(out io.Writer, all bool) func(*sinks.Logged) error {
	teller, colours := &query.Teller{Remember: true}, newColours(terminal(out))
	if p.output == "diff" && !all {
		teller.Ignore = query.Bookkeeping
	}
	return func(l *sinks.Logged) error {
		event, err := teller.Event(l)
		if err != nil {
			return err
		}
		if p.output == "diff" {
			return write(out, colours.event(event, ""))
		}
		text, err := document(p.output, event)
		if err == nil {
			err = write(out, text)
		}
		return err
	}
}

// colours are those of a terminal; elsewhere they do nothing.
type colours struct{ title, added, removed, changed *color.Color }

func newColours(on bool) *colours {
	c := &colours{color.New(color.Bold), color.New(color.FgGreen), color.New(color.FgRed), color.New(color.FgYellow)}
	for _, each := range []*color.Color{c.title, c.added, c.removed, c.changed} {
		if each.DisableColor(); on {
			each.EnableColor()
		}
	}
	return c
}

// event is a change as text: a title, and a line of each path that changed.
func (c *colours) event(e *query.Event, object string) plain.Own {
	op, _ := change.ParseOp(e.Op)
	title := plain.Sprintf("%s  %s%s  resourceVersion %s", e.Time.Format(time.RFC3339), object, op.Past(), e.ResourceVersion)
	if e.Gap != "" && e.TimeFrom == change.FromExporter {
		title += "  (seen then: nothing tells when it happened)"
	}
	if len(e.Managers) > 0 {
		title += plain.Sprintf("  by %s", strings.Join(e.Managers, ", "))
	}
	if e.Inferred {
		title += plain.Sprintf("  (inferred: it was not seen as an event, and may stand for several changes of gap %s)", e.Gap)
	}
	text := plain.Own(c.title.Sprint(title)) + "\n"
	if e.Note != "" {
		text += plain.Sprintf("  %s\n", e.Note)
	}
	return text + c.lines(query.Lines(e.Patch))
}

func (c *colours) lines(lines []query.Line) (text plain.Own) {
	for _, l := range lines {
		colour := map[byte]*color.Color{'+': c.added, '-': c.removed, '~': c.changed}[l.Sign]
		text += plain.Own("  " + colour.Sprint(plain.Sprintf("%c %s: %s", l.Sign, l.Path, l.Text)) + "\n")
	}
	return text
}
