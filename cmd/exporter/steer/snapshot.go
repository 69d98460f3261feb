// Package steer has the commands that send a request to a running exporter: snapshot, pause, resume, forget, signals.
package steer

import (
	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/export/streams"
)

const snapshotHelp = `Read the objects of resources again, while the exporter goes on.

The running exporter lists the objects at one resourceVersion, and compares them with
their last written state in the checkpoint. It writes differences as c, u or d, marked
as inferred. If there are none, it writes nothing. Positions do not move, and no older
state follows a newer one, since changes after the list come from the watch. Only
exporter verify finds what others have changed in a topic or a table.

With --all it writes every object as r to a topic for that, PREFIX.snapshot_of.RESOURCE,
for new consumers. The live topics get nothing. Signal records in the control topic mark
the start and the end, with the resourceVersion of the list. After a crash the next
owner continues after the last object, with a new list.

  exporter snapshot pods
  exporter snapshot po,deploy -n shop
  exporter snapshot cm -l app=web --all --no-wait
` + cli.TypesHelp

// NewSnapshot returns the command exporter snapshot.
func NewSnapshot() *cobra.Command {
	c := cli.WithSettings(&cobra.Command{Use: "snapshot TYPE[,TYPE...] [flags]", Long: snapshotHelp, Args: cli.Args(1, 1),
		Short: "Read the objects of resources again, while the exporter goes on"}, cli.OfRequests)
	var p streams.SnapshotParams
	var o cli.Objects
	o.Flags(c, "only objects with these labels")
	c.Flags().BoolVar(&p.All, "all", false, "write every object to PREFIX.snapshot_of.RESOURCE, instead of differences")
	noWait := addNoWait(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p.Namespace, p.Selector = o.Namespace, o.Selector
		return o.OnStreams(c, args, func(a *ask.Requester, found []change.Position) error {
			requests, err := a.Snapshots(found, p)
			if err != nil {
				return err
			}
			return a.Ask(c.Context(), requests, !*noWait)
		})
	}
	return c
}
