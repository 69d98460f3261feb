// Package past has the commands that ask the log about the past: history, tail, state, diff. Package query answers.
package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
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
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// logHelp is the help of all commands that read the log.
const logHelp = cli.ObjectsHelp + `
The settings of the exporter locate the log. No API server is needed if KUBECDC_CLUSTER
or a kubeconfig names the cluster. The log is not changed. history, state, diff and tail
ask several clusters by --cluster 'prod-*,staging' (docs/log-as-a-tool.md).`

// endForms are the forms of a moment in a question.
const endForms = moment.Times | moment.Versions | moment.Checkpoints

// pastHelp is the help of the commands with a question about a moment.
var pastHelp = logHelp + `

A moment (TIME) is one of
` + endForms.Help() + `

There are two clocks. A time means when things happened: the state of each stream at its
last watermark by then, which the answer names. With --clock logged it means when the
log got them. Where the order of changes is not certain, how long ago (2h) moves back to
the last second at which it is. That is at most a minute, and the answer names it.

stderr says from which resourceVersion on the log is complete. If something may be
missing at that moment, the command says what and fails; with --incomplete it answers
anyway. The log lacks updates that the settings ignore (KUBECDC_IGNORE_FIELDS,
KUBECDC_OPS).`

// pastFlags are the flags of the commands that ask about the past.
type pastFlags struct {
	cli.Objects
	cli.Output
	clock      string
	colour     string
	incomplete bool
	screen     *screen.Screen // the terminal of a user who reads the usual format, or nil
	folded     bool           // shorten long differences on a terminal
	remarks    []string       // lines below the answer
}

func (p *pastFlags) flags(c *cobra.Command, outputs ...string) *cobra.Command {
	p.Objects.Flags(c, "only objects with these labels, before or after a change")
	if slices.Contains(outputs, "diff") {
		c.Flags().StringVar(&p.colour, "color", "auto", "auto (on a terminal, without NO_COLOR), always or never")
	}
	p.Output.Flag(c, outputs...)
	cli.WithNoMirror(c)
	cli.CompleteFromLog(c)
	return cli.ReadsLog(c, cli.OfLog)
}

// moments adds the flags of commands with a question about a moment.
func (p *pastFlags) moments(c *cobra.Command) {
	p.clockFlag(c, "happened")
	c.Flags().BoolVar(&p.incomplete, "incomplete", false, "answer although something may be missing")
}

func (p *pastFlags) clockFlag(c *cobra.Command, usual string) {
	c.Flags().StringVar(&p.clock, "clock", usual, "the clock of times: happened or logged")
	_ = c.RegisterFlagCompletionFunc("clock", cobra.FixedCompletions([]string{"happened", "logged"},
		cobra.ShellCompDirectiveNoFileComp))
}

// checkClock returns a fault.Usage for an unknown clock.
func (p *pastFlags) checkClock() error {
	if p.clock != "happened" && p.clock != "logged" {
		return fault.Usagef("--clock is %q, but must be happened or logged", p.clock)
	}
	return nil
}

// open opens the log, and returns the objects that the arguments select.
func (p *pastFlags) open(ctx context.Context, c *cobra.Command, args []string) (r sinks.ReadCloser, found sinks.Objects,
	err error) {
	if err = p.Check(); err != nil {
		return nil, found, err
	}
	if !slices.Contains([]string{"", "auto", "always", "never"}, p.colour) {
		return nil, found, fault.Usagef("--color is %q, but must be auto, always or never", p.colour)
	}
	p.detectScreen(c)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100) // a question ends soon, and takes 30 to 40% less CPU than with main's
	}
	var mirror string
	// a process that fills a mirror may end
	if follow := c.Flags().Lookup("follow"); follow != nil && follow.Value.String() == "true" {
		r, err = cli.OpenReader(ctx, c)
	} else if r, mirror, err = cli.OpenMirrored(ctx, c); mirror != "" {
		p.addRemark(c.ErrOrStderr(), mirror)
	}
	if err != nil {
		return nil, found, err
	}
	if found, err = p.Select(ctx, c, r, args); err != nil {
		defer r.Close()
		if len(args) == 1 && fault.Is[fault.Usage](err) { // a single name is usually an object's
			if _, question := suggestion(ctx, r, &sinks.Objects{}, args[0]); question != "" {
				err = fault.Usagef("there is no TYPE %q: %s", args[0], question)
			}
		}
		return nil, found, err
	}
	return r, found, nil
}

// detectScreen sets screen if the output is a terminal, and the format is one that people read.
func (p *pastFlags) detectScreen(c *cobra.Command) {
	p.folded = !c.Flags().Changed("output")
	if p.folded || p.Format == "diff" {
		p.screen = screen.New(c.OutOrStdout())
	}
}

// page returns the writer of the answer, and a function that ends it. On a terminal these are a pager, and the remarks below the
// answer.
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
	last := zoneText(time.Now())
	if n := len(p.remarks) - 1; n >= 0 {
		last, p.remarks = p.remarks[n]+"; "+last, p.remarks[:n]
	}
	for _, text := range append(p.remarks, last) {
		line := screen.Wrap(p.screen.Columns(), 2, screen.Part{Text: text, Paint: p.screen.Colours.Dim})
		if err := cli.Write(to, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// addRemark writes a remark about the answer: on a terminal below the answer, else at once.
func (p *pastFlags) addRemark(errs io.Writer, text string) {
	if p.screen != nil {
		p.remarks = append(p.remarks, text)
		return
	}
	plain.Fprintf(errs, "# %s\n", text)
}

func (p *pastFlags) newColours(out io.Writer) *screen.Colours {
	return screen.NewColours(p.colour == "always" || p.colour != "never" && screen.IsColourful(out))
}

func (p *pastFlags) target(flag, text string) (timeline.Target, error) {
	if err := p.checkClock(); err != nil {
		return timeline.Target{}, err
	}
	m, err := cli.ParseMoment(flag, text, endForms)
	t := timeline.TargetOf(m, p.clock == "logged")
	if m.IsAgo && !t.Happened.IsZero() {
		t.Back = timeline.MostBack
	}
	return t, err
}

// manyStreams is the highest number of streams with a line for each.
const manyStreams = 10

// firstWatermark returns the oldest watermark of the streams that have one, or zero.
func firstWatermark(coverage []timeline.Coverage) (first time.Time) {
	for _, c := range coverage {
		if !c.AtTime.IsZero() && (first.IsZero() || c.AtTime.Before(first)) {
			first = c.AtTime
		}
	}
	return first
}

// printCoverage writes how far an answer is complete. It returns an error if something may be missing and --incomplete is not
// set.
func (p *pastFlags) printCoverage(errs io.Writer, moment timeline.Target, coverage []timeline.Coverage, missing []string) error {
	if p.screen != nil {
		return p.remarkCoverage(moment, coverage, missing)
	}
	if end := lastEnd(coverage); timeline.IsStale(end, asked(moment)) {
		plain.Fprintf(errs, "# the log ends at %s: is exporter run stopped?\n", end.UTC().Format(time.RFC3339))
	}
	named := coverage
	if len(coverage) > manyStreams {
		watermarks := ""
		if first := firstWatermark(coverage); !first.IsZero() {
			watermarks = ", with watermarks of " + first.UTC().Format(time.RFC3339) + " and later"
		}
		plain.Fprintf(errs, "# %d streams%s; name a resource to see more\n", len(coverage), watermarks)
		named = nil
	}
	for _, c := range named {
		if c.Unserved {
			plain.Fprintf(errs, "# %s: its CRD did not exist, so there were no objects\n", c.Stream)
			continue
		}
		plain.Fprintf(errs, "# %s at %s", c.Stream, cmp.Or(string(c.At), "no resourceVersion"))
		if !c.AtTime.IsZero() {
			plain.Fprintf(errs, ", watermark of %s", c.AtTime.UTC().Format(time.RFC3339))
		}
		but := ""
		if len(c.Gaps) > 0 {
			but = " but for its gaps"
		}
		plain.Fprintf(errs, "; the log is complete%s from %s to %s\n", but, cmp.Or(string(c.Since), "nothing"),
			cmp.Or(string(c.UpTo), "nothing"))
	}
	if len(missing) == 0 {
		return nil
	}
	if !p.incomplete {
		return refusal(moment, coverage, missing)
	}
	p.remarkMissing(errs, coverage, missing)
	return nil
}

// remarkMissing writes what may be missing in an answer.
func (p *pastFlags) remarkMissing(errs io.Writer, coverage []timeline.Coverage, missing []string) {
	if p.screen != nil {
		p.addRemark(errs, completeness(coverage, missing, time.Now(), time.Time{}))
		return
	}
	incomplete := &query.IncompleteError{Missing: missing}
	plain.Fprintf(errs, "# %s\n", plain.Own(strings.ReplaceAll(plain.Lines(incomplete.Error()), "\n", "\n# ")))
}

// remarkCoverage is printCoverage for a terminal, where the text comes below the answer.
func (p *pastFlags) remarkCoverage(moment timeline.Target, coverage []timeline.Coverage, missing []string) error {
	if len(missing) > 0 && !p.incomplete {
		return refusal(moment, coverage, missing)
	}
	if text := completeness(coverage, missing, time.Now(), asked(moment)); text != "" && !slices.Contains(p.remarks, text) {
		p.remarks = append(p.remarks, text)
	}
	return nil
}

// asked returns the time that a moment is, or zero for a version or a checkpoint. Without a moment it is the present.
func asked(moment timeline.Target) time.Time {
	switch {
	case moment.Version != "", moment.Batch != nil:
		return time.Time{}
	case !moment.Happened.IsZero():
		return moment.Happened
	case !moment.Logged.IsZero():
		return moment.Logged
	}
	return time.Now()
}

func refusal(moment timeline.Target, coverage []timeline.Coverage, missing []string) error {
	var listed time.Time
	for _, c := range coverage {
		if c.Listed.After(listed) {
			listed = c.Listed
		}
	}
	err := fmt.Errorf("%s: %w", moment, &query.IncompleteError{Missing: missing})
	if !listed.IsZero() {
		err = fmt.Errorf("%w\nall first lists had ended at %s: ask about then, or later", err,
			listed.Add(time.Second).UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%w\n--incomplete answers anyway", err)
}
