// Package past has the commands that ask the log about the past: history, tail, state, diff. The answers come from query.
package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/sinks"
)

// logHelp is about what all commands share that read the log.
const logHelp = cli.ObjectsHelp + `
The log is found by the settings of the exporter. No API server is needed if
KUBECDC_CLUSTER or a kubeconfig names the cluster, and nothing is written.`

// endForms are the moments that they may ask about.
const endForms = moment.Times | moment.Versions | moment.Checkpoints

// pastHelp is about what the commands share that ask about a moment.
var pastHelp = logHelp + `

A moment (TIME) is one of
` + endForms.Help() + `

There are two clocks. A time means when things happened: each stream is taken at its
last watermark by then, and the answer says which that is. With --clock logged it
means when the log got them.

The answer says on stderr from which resourceVersion on the log is complete. If
something may be missing at that moment, the command says what and fails; with
--incomplete it answers all the same. Updates that the settings ignore
(KUBECDC_IGNORE_FIELDS, KUBECDC_OPS) are not in the log.`

// pastFlags are the flags of the commands that ask about the past.
type pastFlags struct {
	cli.Objects
	cli.Output
	clock      string
	colour     string
	incomplete bool
	screen     *screen.Screen // of somebody who reads the answer in its usual form; nil: a pipe, or another form
	folded     bool           // long differences are shortened there
	remarks    []string       // to be written below the answer
}

func (p *pastFlags) flags(c *cobra.Command, outputs ...string) *cobra.Command {
	p.Objects.Flags(c, "only objects with these labels, before or after a change")
	if slices.Contains(outputs, "diff") {
		c.Flags().StringVar(&p.colour, "color", "auto", "auto (on a terminal, without NO_COLOR), always or never")
	}
	p.Output.Flag(c, outputs...)
	cli.CompleteFromLog(c)
	return cli.WithSettings(c, cli.OfLog)
}

// moments adds the flags of commands that ask about a moment.
func (p *pastFlags) moments(c *cobra.Command) {
	p.clockFlag(c, "happened")
	c.Flags().BoolVar(&p.incomplete, "incomplete", false, "answer although something may be missing")
}

func (p *pastFlags) clockFlag(c *cobra.Command, usual string) {
	c.Flags().StringVar(&p.clock, "clock", usual, "which clock times are by: happened or logged")
	_ = c.RegisterFlagCompletionFunc("clock", cobra.FixedCompletions([]string{"happened", "logged"}, cobra.ShellCompDirectiveNoFileComp))
}

// checkClock returns the error for a clock that there is not.
func (p *pastFlags) checkClock() error {
	if p.clock != "happened" && p.clock != "logged" {
		return fault.Usagef("--clock is %q, and can be happened or logged", p.clock)
	}
	return nil
}

// open opens the log, and finds the objects in it that are asked about.
func (p *pastFlags) open(ctx context.Context, c *cobra.Command, args []string) (r sinks.ReadCloser, found sinks.Objects, err error) {
	if err = p.Check(); err != nil {
		return nil, found, err
	}
	if !slices.Contains([]string{"", "auto", "always", "never"}, p.colour) {
		return nil, found, fault.Usagef("--color is %q, and can be auto, always or never", p.colour)
	}
	p.look(c)
	if r, err = cli.OpenReader(ctx, c); err != nil {
		return nil, found, err
	}
	if found, err = p.Select(ctx, c, r, args); err != nil {
		defer r.Close()
		if len(args) == 1 && fault.Is[fault.Usage](err) { // a name alone is mostly that of an object
			if question := near(ctx, r, nil, args[0]); question != "" {
				err = fault.Usagef("no TYPE is called %q: %s", args[0], question)
			}
		}
		return nil, found, err
	}
	return r, found, nil
}

// look finds out whether somebody reads the answer at a terminal, in its usual form.
func (p *pastFlags) look(c *cobra.Command) {
	p.folded = !c.Flags().Changed("output")
	if p.folded || p.Format == "diff" {
		p.screen = screen.Of(c.OutOrStdout())
	}
}

// page returns the writer of the answer, and what ends it: on a terminal a pager, and the remarks below the answer.
func (p *pastFlags) page(out io.Writer, follow bool) (to io.Writer, end func() error) {
	if p.screen == nil {
		return out, func() error { return nil }
	}
	if follow {
		return p.screen, func() error { return p.writeRemarks(p.screen) }
	}
	pager := cli.NewPager(p.screen)
	return pager, func() error { return errors.Join(p.writeRemarks(pager), pager.Close()) }
}

func (p *pastFlags) writeRemarks(to io.Writer) error {
	for _, text := range p.remarks {
		line := screen.Line(p.screen.Columns(), screen.Part{Text: text, Paint: p.screen.Colours.Dim})
		if err := cli.Write(to, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// remark writes a note about the answer: on a terminal below it, else at once.
func (p *pastFlags) remark(errs io.Writer, text string) {
	if p.screen != nil {
		p.remarks = append(p.remarks, text)
		return
	}
	plain.Fprintf(errs, "# %s\n", text)
}

func (p *pastFlags) newColours(out io.Writer) *screen.Colours {
	return screen.NewColours(p.colour == "always" || p.colour != "never" && screen.IsColourful(out))
}

func (p *pastFlags) target(flag, text string) (query.Target, error) {
	if err := p.checkClock(); err != nil {
		return query.Target{}, err
	}
	m, err := cli.ParseMoment(flag, text, endForms)
	return query.TargetOf(m, p.clock == "logged"), err
}

// manyStreams is above how many streams nobody reads a line of each.
const manyStreams = 10

// printCoverage writes how far an answer is complete, on a terminal below it, and refuses it if something may be missing.
func (p *pastFlags) printCoverage(errs io.Writer, at query.Target, coverage []query.Coverage, missing []string) error {
	if p.screen != nil {
		return p.remarkCoverage(at, coverage, missing)
	}
	if len(coverage) > manyStreams {
		first := slices.MinFunc(coverage, func(a, b query.Coverage) int { return a.AtTime.Compare(b.AtTime) }).AtTime
		plain.Fprintf(errs, "# %d streams, with watermarks of %s and later; of a resource that is named this says more\n", len(coverage),
			first.UTC().Format(time.RFC3339))
		coverage = nil
	}
	for _, c := range coverage {
		if c.Unserved {
			plain.Fprintf(errs, "# %s: its CRD did not exist, so nothing of it did\n", c.Stream)
			continue
		}
		plain.Fprintf(errs, "# %s at %s", c.Stream, cmp.Or(string(c.At), "no resourceVersion"))
		if !c.AtTime.IsZero() {
			plain.Fprintf(errs, ", watermark of %s", c.AtTime.UTC().Format(time.RFC3339))
		}
		plain.Fprintf(errs, "; the log is complete from %s to %s\n", cmp.Or(string(c.Since), "nothing"), cmp.Or(string(c.UpTo), "nothing"))
	}
	if len(missing) == 0 {
		return nil
	}
	if !p.incomplete {
		return refusal(at, missing)
	}
	incomplete := &query.IncompleteError{Missing: missing}
	plain.Fprintf(errs, "# %s\n", plain.Own(strings.ReplaceAll(plain.Lines(incomplete.Error()), "\n", "\n# ")))
	return nil
}

// remarkCoverage says below the answer how far it is complete.
func (p *pastFlags) remarkCoverage(at query.Target, coverage []query.Coverage, missing []string) error {
	if len(missing) > 0 && !p.incomplete {
		return refusal(at, missing)
	}
	if text := completeness(coverage, missing, time.Now()); text != "" && !slices.Contains(p.remarks, text) {
		p.remarks = append(p.remarks, text)
	}
	return nil
}

func refusal(at query.Target, missing []string) error {
	return fmt.Errorf("%s: %w\n--incomplete answers all the same", at, &query.IncompleteError{Missing: missing})
}

// notKept says what to do about a log that does not go back far enough.
func notKept(err error) error {
	if errors.Is(err, sinks.ErrNotRetained) {
		return fmt.Errorf("%w: KUBECDC_KAFKA_HISTORY, KUBECDC_SINK_POSTGRES_HISTORY or KUBECDC_SQLITE_HISTORY says how long the log keeps every change", err)
	}
	return err
}
