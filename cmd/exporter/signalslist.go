package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kubecdc/checkpoint"
)

const signalsHelp = `Show and abort what running exporters were asked for.

"exporter pause", "resume", "forget" and "snapshot" write a signal into the
checkpoint store. The exporter that owns the stream looks there every two seconds,
does it, and answers there and in the control topic. Another owner goes on with what
one has begun. Answers are kept as long as the history of checkpoints
(KUBECDC_HISTORY_RETENTION).

  exporter signals list
  exporter signals list -o json
  exporter signals abort 7`

const listSignalsHelp = `List signals and their answers, oldest first.

  exporter signals list
  exporter signals list -o json`

const abortSignalHelp = `Abort a signal that has not ended: one without an owner, or a snapshot at work.

  exporter signals list       # shows the ids
  exporter signals abort 7`

func newSignals() *cobra.Command {
	parent := &cobra.Command{Use: "signals", Short: "Show and abort what running exporters were asked for", Long: signalsHelp,
		Args: unknownCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	list := withSettings(&cobra.Command{Use: "list [flags]", Short: "List signals and their answers", Long: signalsHelp, Args: cobra.NoArgs})
	format := list.Flags().StringP("output", "o", "table", outputHelp("table", "json", "yaml"))
	list.RunE = func(c *cobra.Command, _ []string) error { return listSignals(c, *format) }
	abort := withSettings(&cobra.Command{Use: "abort ID [flags]", Short: "Abort a signal", Long: signalsHelp, Args: cobra.ExactArgs(1),
		RunE: abortSignal})
	list.Long, abort.Long = listSignalsHelp, abortSignalHelp
	parent.AddCommand(list, abort)
	return parent
}

func listSignals(c *cobra.Command, format string) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	a, err := openAsking(c.Context(), c)
	if err != nil {
		return err
	}
	defer a.close()
	all, err := a.store.Signals(c.Context(), false)
	if err != nil {
		return err
	}
	return printSignals(a.out, format, all)
}

func printSignals(out io.Writer, format string, all []checkpoint.Signal) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]checkpoint.Signal{}, all...)) // [] if there are none
	case "yaml":
		text, err := yaml.Marshal(append([]checkpoint.Signal{}, all...))
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ID\tKIND\tSTREAM\tREQUESTED\tANSWERED\tANSWER")
	for _, g := range all {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", g.ID, g.Kind, g.Stream, g.Requested.Format(time.RFC3339),
			g.Answered.Format(time.RFC3339), progressOf(g))
	}
	return t.Flush()
}

func abortSignal(c *cobra.Command, args []string) error {
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return &usageError{fmt.Sprintf("%q is no id of a signal: exporter signals list shows them", args[0])}
	}
	a, err := openAsking(c.Context(), c)
	if err != nil {
		return err
	}
	defer a.close()
	err = a.store.AbortSignal(c.Context(), id)
	if errors.Is(err, checkpoint.ErrSignalEnded) {
		return &usageError{fmt.Sprintf("signal %d: %v: exporter signals list shows which are open", id, err)}
	}
	if err == nil {
		fmt.Fprintf(a.out, "signal %d is to be aborted\n", id)
	}
	return err
}

// checkFormat refuses what is no format of a table.
func checkFormat(format string) error {
	if format != "table" && format != "json" && format != "yaml" {
		return &usageError{fmt.Sprintf("--output is %q: set it to table, json or yaml", format)}
	}
	return nil
}
