package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/wI2L/jsondiff"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/internal/usage"
	"kubecdc/query"
)

var diffHelp = `Show what differs between two moments, from the log alone.

  exporter diff --from 2h --to now
  exporter diff --from 2026-11-22T08:00:00Z --to 2026-11-22T09:00:00Z deployments.apps -n shop
  exporter diff --from 0/1234 --to 0/1300 -o json

Without RESOURCE it compares all resources of the log. As with diff and kubectl diff
the exit code is 0 if nothing differs, 1 if something does, and above 1 if there is
no answer. The text leaves out what changes with every update (managedFields,
resourceVersion, generation), unless --all-fields is given. json is one line for each
object, with a JSON Patch (RFC 6902) from what it was to what it became.
` + pastHelp

// differsError says that what a command compares differs: exit code 1, as of diff and kubectl diff.
type differsError struct{ text string }

func (e *differsError) Error() string { return e.text }

func objectsDiffer(n int) error {
	if n == 1 {
		return &differsError{"1 object differs"}
	}
	return &differsError{fmt.Sprintf("%d objects differ", n)}
}

func newDiff() *cobra.Command {
	p, from, to, all := &pastFlags{}, "", "", false
	c := &cobra.Command{
		Use:         "diff --from TIME --to TIME [RESOURCE] [flags]",
		Short:       "Show what differs between two moments",
		Long:        diffHelp,
		Args:        argCount(0, 1),
		Annotations: compares,
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" {
				return usage.Error("diff needs --from: a time, how long ago (2h), a resourceVersion, or a checkpoint")
			}
			return p.diff(c.Context(), c, from, to, all, args)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the first moment")
	c.Flags().StringVar(&to, "to", "now", "the second moment")
	c.Flags().BoolVar(&all, "all-fields", false, "show managedFields, resourceVersion and generation too")
	return p.flags(c, true, "diff", "json")
}

func (p *pastFlags) diff(ctx context.Context, c *cobra.Command, from, to string, all bool, args []string) error {
	first, err := p.target("--from", from)
	if err != nil {
		return err
	}
	second, err := p.target("--to", to)
	if err != nil {
		return err
	}
	reader, err := openReader(ctx, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	q := query.Question{Namespace: p.namespace}
	if len(args) == 1 {
		resource, err := resourceID(ctx, reader, args[0])
		if err != nil {
			return err
		}
		q.Resources = []string{resource}
	}
	states, err := readStates(ctx, c, reader, q, first, second)
	if err != nil {
		return err
	}
	for _, s := range states {
		if err := p.printCoverage(c.ErrOrStderr(), s.At, s.Coverage, s.Missing); err != nil {
			return err
		}
	}
	return p.printDifferences(c.OutOrStdout(), states, all)
}

// difference is one line of -o json.
type difference struct {
	Resource  string         `json:"resource"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Op        string         `json:"op"` // c, u or d: what happened to it between the moments
	From      string         `json:"from,omitempty"`
	To        string         `json:"to,omitempty"`
	Patch     jsondiff.Patch `json:"patch,omitempty"`
}

func (p *pastFlags) printDifferences(out io.Writer, states []*query.State, all bool) error {
	w := bufio.NewWriter(out)
	var ignore []string
	if p.output != "json" && !all {
		ignore = query.Bookkeeping
	}
	colours, count := newColours(terminal(out)), 0
	err := query.Differences(states[0], states[1], func(before, after *query.Object) error {
		d := difference{Op: "u"}
		switch {
		case before == nil:
			d.Op = "c"
		case after == nil:
			d.Op = "d"
		default:
			var err error
			if d.Patch, err = query.Patch(before.Body, after.Body, ignore...); err != nil {
				return err
			}
			if len(d.Patch) == 0 {
				return nil // only what each update changes
			}
		}
		d.name(before, after)
		count++
		return p.printDifference(w, colours, &d)
	})
	if err = cmp.Or(err, w.Flush()); err == nil && count > 0 {
		err = objectsDiffer(count)
	}
	return err
}

func (d *difference) name(before, after *query.Object) {
	for _, o := range []*query.Object{before, after} {
		if o != nil {
			d.Resource, d.Namespace, d.Name = o.Resource, o.Namespace, o.Name
		}
	}
	if before != nil {
		d.From = string(before.ResourceVersion)
	}
	if after != nil {
		d.To = string(after.ResourceVersion)
	}
}

func (p *pastFlags) printDifference(w io.Writer, colours *colours, d *difference) error {
	if p.output == "json" {
		text, err := document(p.output, d)
		if err == nil {
			err = write(w, text)
		}
		return err
	}
	paint, sign, versions := colours.changed, "~", d.From+" → "+d.To
	switch d.Op {
	case "c":
		paint, sign, versions = colours.added, "+", d.To
	case "d":
		paint, sign, versions = colours.removed, "-", d.From
	}
	title := plain.Sprintf("%s %s %s  %s", sign, d.Resource, change.ObjectKey(d.Namespace, d.Name), versions)
	return write(w, plain.Own(paint.Sprint(title))+"\n"+colours.lines(query.Lines(d.Patch)))
}
