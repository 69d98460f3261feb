package steer

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/export"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

const forgetHelp = `Forget streams that are not selected any more.

A stream is one resource, or one resource in one namespace (pods, pods@shop). When
the settings stop selecting it, it ends: the control topic gets a stream-end record.
The checkpoint retains its position and the last state of each object. If it is
selected again, it resumes there and exports what happened meanwhile.

Forget removes position and objects from the checkpoint, and leaves the log unchanged.
If the stream is selected again later, the exporter reads back what the log has of it,
and resumes there: objects that were deleted meanwhile get a delete record. If the log
has lost the position, a gap record says that changes may be missing.

Without arguments the command lists the streams that have ended. If an exporter runs,
the command asks it to forget them.

  exporter forget                    # list the streams that have ended
  exporter forget pods@shop nodes    # forget two of them
  exporter forget po,deploy -n shop
` + cli.TypesHelp

// NewForget returns the command exporter forget, which removes streams that are no longer selected from the checkpoint.
func NewForget() *cobra.Command {
	c := cli.WithSettings(&cobra.Command{Use: "forget [STREAM...] [flags]",
		Short: "Forget streams that are not selected any more",
		Long:  forgetHelp}, cli.OfRequests)
	var o cli.Objects
	o.Flags(c, "")
	noWait := addNoWait(c)
	c.RunE = func(c *cobra.Command, streams []string) error {
		if len(streams) == 0 && o.Namespace == "" {
			p, err := cli.OpenCheckpoints(c)
			if err != nil {
				return err
			}
			defer p.Store.Close()
			return listEnded(c.Context(), p.Store, p.Out)
		}
		return o.OnStreams(c, streams, func(a *ask.Requester, found []change.Position) error {
			return a.Forget(c.Context(), found, !*noWait)
		})
	}
	return c
}

func listEnded(ctx context.Context, store checkpoint.Overview, out io.Writer) error {
	ended, err := export.EndedStreams(ctx, store)
	if err != nil {
		return err
	}
	if len(ended) == 0 {
		plain.Fprintf(out, "no stream has ended\n")
		return nil
	}
	t := screen.NewTable(out)
	plain.Fprintf(t, "STREAM\tCOMPLETE UP TO\tAT\n")
	for _, p := range ended {
		plain.Fprintf(t, "%s\t%s\t%s\n", p.Stream, p.ResourceVersion, p.Time.Format(time.RFC3339))
	}
	return t.Flush()
}
