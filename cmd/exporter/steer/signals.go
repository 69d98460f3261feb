package steer

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/checkpoint"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
)

const signalsHelp = `Show and abort requests to running exporters.

"exporter pause", "resume", "forget" and "snapshot" write a signal into the
checkpoint store. The exporter that owns the stream reads signals every two
seconds, does what they ask, and answers in the store and in the control topic. If
the owner changes, the new owner goes on. Answers are retained as long as the
history of checkpoints (KUBECDC_HISTORY_RETENTION).

  exporter signals list
  exporter signals list -o json
  exporter signals abort 7`

const listSignalsHelp = `List signals and their answers, oldest first.

  exporter signals list
  exporter signals list -o json`

const abortSignalHelp = `Abort a signal that has not ended: one without an owner, or a running snapshot.

  exporter signals list       # shows the ids
  exporter signals abort 7`

// NewSignals returns the command exporter signals.
func NewSignals() *cobra.Command {
	parent := &cobra.Command{Use: "signals", Short: "Show and abort requests to running exporters", Long: signalsHelp,
		Args: cli.UnknownCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	var out cli.Output
	list := cli.OnCheckpoints(cli.WithOutput(&cobra.Command{Use: "list [flags]", Short: "List signals and their answers",
		Long: listSignalsHelp,
		Args: cli.Args(0, 0)}, &out), func(ctx context.Context, p *cli.Checkpoints,
		_ []string) error {
		return listSignals(ctx, p, &out)
	})
	abort := cli.WithSettings(&cobra.Command{Use: "abort ID [flags]", Short: "Abort a signal", Long: abortSignalHelp,
		Args: cli.Args(1, 1),
		RunE: abortSignal}, cli.OfRequests)
	parent.AddCommand(list, abort)
	return parent
}

func listSignals(ctx context.Context, p *cli.Checkpoints, out *cli.Output) error {
	all, err := p.Store.Signals(ctx, false)
	if err != nil {
		return err
	}
	all = append([]checkpoint.Signal{}, all...) // JSON [] if there are none
	return out.Print(p.Out, all, func(t io.Writer) {
		plain.Fprintf(t, "ID\tKIND\tSTREAM\tREQUESTED\tANSWERED\tANSWER\n")
		for _, g := range all {
			plain.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", g.ID, g.Kind, g.Stream, g.Requested.Format(time.RFC3339),
				g.Answered.Format(time.RFC3339), ask.ProgressOf(g))
		}
	})
}

func abortSignal(c *cobra.Command, args []string) error {
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return fault.Usagef("%q is no id of a signal: exporter signals list shows them", args[0])
	}
	a, err := cli.OpenRequester(c.Context(), c)
	if err != nil {
		return err
	}
	defer a.Close()
	err = a.Store.AbortSignal(c.Context(), id)
	if errors.Is(err, checkpoint.ErrSignalEnded) {
		return fault.Usagef("signal %d: %v: exporter signals list shows which are open", id, err)
	}
	if err == nil {
		plain.Fprintf(a.Out, "signal %d is to be aborted\n", id)
	}
	return err
}
