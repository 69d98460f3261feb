package main

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/export"
	"kubecdc/internal/usage"
)

const snapshotHelp = `Read the objects of resources again, while the exporter goes on.

The running exporter lists the objects at one resourceVersion and compares them with
what it has written, as the checkpoint has it. What that lacks, or has otherwise, is
written as c, u or d, marked inferred; if nothing differs, nothing is written.
Positions do not move, and no older state follows a newer one: what has changed since
the list is left to the watch. What somebody else has done to a topic or a table only
exporter verify finds.

With --all every object is written as r to a topic of its own, PREFIX.snapshot.RESOURCE,
for consumers that begin or begin again. The live topics get nothing. Signal records in
the control topic enclose it, with the resourceVersion of the list. After a crash the
next owner goes on after the last object, with a new list.

  exporter snapshot --resource pods
  exporter snapshot --resource pods,deployments.apps -n shop
  exporter snapshot --resource configmaps --selector app=web --all --no-wait`

func newSnapshot() *cobra.Command {
	c := withSettings(&cobra.Command{Use: "snapshot --resource RESOURCE,... [flags]", Long: snapshotHelp, Args: argCount(0, 0),
		Short: "Read the objects of resources again, while the exporter goes on"}, ofRequests)
	var p export.SnapshotParams
	resources := c.Flags().StringSlice("resource", nil, "resources to read: pods,deployments.apps")
	c.Flags().StringVarP(&p.Namespace, "namespace", "n", "", "only objects of this namespace")
	c.Flags().StringVarP(&p.Selector, "selector", "l", "", "only objects with these labels, as kubectl takes them")
	c.Flags().BoolVar(&p.All, "all", false, "write every object to PREFIX.snapshot.RESOURCE, and not what differs")
	noWait := addNoWait(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if len(*resources) == 0 {
			return usage.Error("--resource is not set: name the resources to read, such as pods,deployments.apps")
		}
		if _, err := labels.Parse(p.Selector); err != nil {
			return usage.Errorf("--selector: %v: set it as for kubectl, such as app=web,tier!=test", err)
		}
		a, err := openRequester(c.Context(), c)
		if err != nil {
			return err
		}
		defer a.Close()
		requests, err := a.Snapshots(c.Context(), *resources, p)
		if err != nil {
			return err
		}
		return a.Ask(c.Context(), requests, !*noWait)
	}
	return c
}
