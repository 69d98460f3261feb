// Package steer has the commands that ask a running exporter for something: snapshot, pause, resume, forget, signals.
package steer

import (
	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/export"
)

const snapshotHelp = `Read the objects of resources again, while the exporter goes on.

The running exporter lists the objects at one resourceVersion and compares them with
what it has written, as the checkpoint has it. What that lacks, or has otherwise, is
written as c, u or d, marked inferred; if nothing differs, nothing is written.
Positions do not move, and no older state follows a newer one: what has changed since
the list is left to the watch. What somebody else has done to a topic or a table only
exporter verify finds.

With --all every object is written as r to a topic of its own, PREFIX.snapshot_of.RESOURCE,
for consumers that begin or begin again. The live topics get nothing. Signal records in
the control topic enclose it, with the resourceVersion of the list. After a crash the
next owner goes on after the last object, with a new list.

  exporter snapshot pods
  exporter snapshot po,deploy -n shop
  exporter snapshot cm -l app=web --all --no-wait
` + cli.TypesHelp

// NewSnapshot returns the command exporter snapshot.
func NewSnapshot() *cobra.Command {
	c := cli.WithSettings(&cobra.Command{Use: "snapshot TYPE[,TYPE...] [flags]", Long: snapshotHelp, Args: cli.Args(1, 1),
		Short: "Read the objects of resources again, while the exporter goes on"}, cli.OfRequests)
	var p export.SnapshotParams
	var o cli.Objects
	o.Flags(c, "only objects with these labels")
	c.Flags().BoolVar(&p.All, "all", false, "write every object to PREFIX.snapshot_of.RESOURCE, and not what differs")
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
