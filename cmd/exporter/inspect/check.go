package inspect

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kubecdc/check"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

const checkHelp = `Check the settings, and whether the API server, the checkpoint and the sink can be
used.

Nothing is exported. The checkpoint's file or tables are created if they do not
exist. With Kafka the check tries what a start and a restart need: to describe,
read and write each topic, to create missing ones, and a transaction. Unlike run
it does not wait for a server that can't be reached: it makes each check once,
within 20 seconds. The exit code is 1 if something would stop an export. Warnings
do not change it. Each finding names the command or the setting that fixes it.

  exporter check
  exporter check --sink kafka --kafka-brokers kafka-1:9092 -o json`

// NewCheck returns the command exporter check.
func NewCheck() *cobra.Command {
	var out cli.Output
	c := cli.WithOutput(&cobra.Command{
		Use:   "check [flags]",
		Short: "Check the settings, and whether their servers can be used",
		Long:  checkHelp,
		Args:  cli.Args(0, 0),
	}, &out)
	c.RunE = func(c *cobra.Command, _ []string) error { return runChecks(c.Context(), c, &out) }
	return cli.WithSettings(c, nil)
}

func runChecks(ctx context.Context, c *cobra.Command, out *cli.Output) error {
	settings, connection, warnings, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	findings, err := check.Run(ctx, settings, connection, warnings)
	if err != nil {
		return err
	}
	return printFindings(out, c.OutOrStdout(), findings)
}

func printFindings(out *cli.Output, w io.Writer, findings []check.Finding) error {
	failed, terminal := 0, screen.New(w)
	for _, f := range findings {
		if f.State == check.Failed {
			failed++
		}
	}
	if err := out.Print(w, findings, func(w io.Writer) {
		for _, f := range findings {
			for _, line := range wrapped(terminal, f.Message) {
				plain.Fprintf(w, "%s\t%s\t%s\n", f.Check, f.State, strings.TrimSpace(line))
				f.Check, f.State = "", ""
			}
		}
	}); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of the checks failed", failed)
	}
	return nil
}

// otherColumns is how many columns of a terminal the table of findings needs in addition to the message.
const otherColumns = 24

// wrapped returns the lines of a message. On a terminal it wraps them to the terminal's width.
func wrapped(terminal *screen.Screen, message string) (lines []string) {
	for line := range strings.SplitSeq(message, "\n") {
		if terminal == nil {
			lines = append(lines, line)
			continue
		}
		var words []screen.Part
		for word := range strings.FieldsSeq(line) {
			words = append(words, screen.Part{Text: word + " "})
		}
		lines = append(lines, strings.Split(string(screen.Wrap(terminal.Columns()-otherColumns, 0, words...)), "\n")...)
	}
	return lines
}
