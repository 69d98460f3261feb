package past

import (
	"bufio"
	"context"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/incident"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/query/who"
)

var diffHelp = `Show the differences between two moments, from the log alone.

  exporter diff --from 2h --to now
  exporter diff --from 08:00 --to 09:00 deploy,cm -n shop -l app=web
  exporter diff --from 7d deploy/web -n shop
  exporter diff --from 0/1234 --to 0/1300 -o json

Without TYPE it compares all resources of the log. The exit code is 0 if nothing
differs, 1 if something does, and above 1 if there is no answer, as with kubectl diff.
The text leaves out what changes with every update (managedFields, resourceVersion,
generation) and copies of the object in annotations, unless --all-fields is given. On a
terminal long differences are folded, unless -o diff is given. Without a NAME it only
counts the objects that differ in nothing but their status, unless --status is given.
json has one line for each object, with a JSON Patch (RFC 6902) from its first state to
its second one.
` + pastHelp

// NewDiff returns the command exporter diff.
func NewDiff() *cobra.Command {
	p := &differing{}
	c := &cobra.Command{
		Use:         "diff --from TIME [--to TIME] " + cli.ObjectsUse + " [flags]",
		Short:       "Show what differs between two moments",
		Long:        diffHelp,
		Annotations: cli.Compares,
		RunE: forEach(func() (question, *pastFlags) {
			own := *p
			return own.diff, &own.pastFlags
		}, new(bool)),
	}
	c.Flags().StringVar(&p.from, "from", "", "the first moment")
	c.Flags().StringVar(&p.to, "to", "now", "the second moment")
	c.Flags().BoolVar(&p.all, "all-fields", false, allFields)
	c.Flags().BoolVar(&p.status, "status", false, "also show objects that differ only in their status, at a terminal")
	p.moments(c)
	return p.flags(c, "diff", "name", "json", "yaml", cli.JSONPath)
}

type differing struct {
	pastFlags
	from, to string
	all      bool
	status   bool
	counts   bool // objects of which only the status differs are counted, and not shown
	requests *who.Requests
}

func (p *differing) diff(ctx context.Context, c *cobra.Command, args []string) error {
	if p.from == "" {
		return fault.Usage("diff needs --from: a time, how long ago (2h), a resourceVersion, or a checkpoint")
	}
	first, err := p.target("--from", p.from)
	if err != nil {
		return err
	}
	second, err := p.target("--to", p.to)
	if err != nil {
		return err
	}
	reader, objects, err := p.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer reader.Close()
	states, err := readStates(ctx, c, reader, objects, first, second)
	if err != nil {
		return err
	}
	p.remarkMoment(c.ErrOrStderr(), "--from", p.from, first, states[0].Moment)
	p.remarkMoment(c.ErrOrStderr(), "--to", p.to, second, states[1].Moment)
	for _, s := range states {
		if err := p.printCoverage(c.ErrOrStderr(), s.Moment, s.Coverage, s.Missing); err != nil {
			return err
		}
	}
	// A change that was logged after a time may have happened before it. So requests from before that time are read too.
	if p.requests, err = who.ReadRequests(ctx, reader, &objects, states[0].Moment.Happened); err != nil {
		return err
	}
	p.remarkRequests(c.ErrOrStderr(), p.requests)
	out, end := p.page(c.OutOrStdout(), false)
	p.counts = p.screen != nil && p.folded && !p.status && !p.all && objects.Query().Name == ""
	count, quiet, err := p.printDifferences(out, p.newColours(c.OutOrStdout()), states)
	if err != nil {
		return err
	}
	if quiet > 0 {
		p.addRemark(c.ErrOrStderr(), "only the status of "+english.Plural(quiet, "other object", "")+
			" differs: --status shows it")
	}
	if err := end(); err != nil {
		return err
	}
	existing, answered := 0, map[string]bool{}
	for _, s := range states {
		if err := s.Objects(answers(&existing, answered)); err != nil {
			return err
		}
	}
	if err := checkKnown(ctx, reader, &objects, states[1].Coverage, answered); err != nil || count == 0 {
		return err
	}
	return cli.ObjectsDiffer(count)
}

// differingObject is how an object changed, in the format json.
type differingObject struct {
	Resource  string                 `json:"resource"`
	Namespace string                 `json:"namespace,omitempty"`
	Name      string                 `json:"name"`
	Op        string                 `json:"op"` // c, u or d: the change between the moments
	From      string                 `json:"from,omitempty"`
	To        string                 `json:"to,omitempty"`
	Patch     []difference.Operation `json:"patch,omitempty"`
	By        []string               `json:"by,omitempty"` // users known to have changed it between the moments

	lines []difference.Line
}

func (p *differing) printDifferences(out io.Writer, colours *screen.Colours, states []*query.State) (count, quiet int,
	err error) {
	w := bufio.NewWriter(out)
	err = query.Differences(states[0], states[1], func(before, after *query.Object) error {
		d, err := p.difference(before, after)
		if err != nil || d == nil {
			return err
		}
		if count++; p.counts && d.Op == "u" && incident.AreConsequences(d.lines) {
			quiet++
			return nil
		}
		d.By = query.UsersBetween(p.requests, before, after)
		return p.printDifference(w, colours, d)
	})
	if err != nil {
		return 0, 0, err
	}
	return count, quiet, w.Flush()
}

// difference compares two states of an object. It returns nil if they differ only in bookkeeping.
func (p *differing) difference(before, after *query.Object) (d *differingObject, err error) {
	d = &differingObject{Op: "u"}
	d.name(before, after)
	switch {
	case before == nil:
		d.Op = "c"
	case after == nil:
		d.Op = "d"
	case p.Format == "diff" || p.Format == "name":
		d.lines, err = difference.Lines(before.Body, after.Body, p.all)
		if len(d.lines) == 0 {
			return nil, err
		}
	default:
		d.Patch, err = difference.Patch(before.Body, after.Body)
	}
	return d, err
}

func (d *differingObject) name(before, after *query.Object) {
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

func (p *differing) printDifference(w io.Writer, colours *screen.Colours, d *differingObject) error {
	sign, versions := "~", d.From+" → "+d.To
	switch d.Op {
	case "c":
		sign, versions = "+", d.To
	case "d":
		sign, versions = "-", d.From
	}
	text, err := plain.Own(""), error(nil)
	switch {
	case p.screen != nil:
		text = p.entry(colours, sign, d)
	case p.Format == "name":
		text = plain.Sprintf("%s/%s\n", d.Resource, d.Name)
	case p.Format == "diff":
		title := plain.Sprintf("%s %s %s  %s", sign, d.Resource, change.ObjectKey(d.Namespace, d.Name), versions)
		if len(d.By) > 0 {
			title += plain.Sprintf("  by %s", strings.Join(d.By, ", "))
		}
		text = plain.Own(colours.Sign(sign[0]).Sprint(title)) + "\n" + differences(colours, d.lines, unlimited)
	default:
		text, err = p.Document(d)
	}
	if err == nil {
		err = cli.Write(w, text)
	}
	return err
}

// entry returns the text of a difference for a terminal.
func (p *differing) entry(colours *screen.Colours, sign string, d *differingObject) plain.Own {
	parts := []screen.Part{{Text: sign + " ", Paint: colours.Sign(sign[0])},
		{Text: screen.Object(d.Resource, d.Name), Paint: colours.Title}}
	if d.Namespace != "" {
		parts = append(parts, screen.Part{Text: " -n " + d.Namespace, Paint: colours.Dim})
	}
	if len(d.By) > 0 {
		parts = append(parts, screen.Part{Text: "  by " + strings.Join(d.By, ", "), Paint: colours.Dim})
	}
	return screen.Wrap(p.screen.Columns(), 4, parts...) + "\n" + p.below(colours, d.lines, p.screen.Columns())
}
