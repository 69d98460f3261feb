package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/kubelease"
	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/setup"
	"kubecdc/source/discovery"
	"kubecdc/status"
)

const statusHelp = `Show whether the export is healthy and complete.

It shows what is wrong, the owner of each slot, and for each stream how far the
log is complete, its last gap and its last proof. All of that is in the
checkpoint, so the command works from any machine that reaches it, and while the
exporter runs; an SQLite file must be on the same machine. It writes nothing.

What only the running exporter knows, as the state and rate of its streams, is on its
status page (KUBECDC_LISTEN), and as JSON at /status.json there.

The exit code is 1 if something is wrong: a slot without an owner, a stream that
was not confirmed for some minutes (KUBECDC_WATERMARK_INTERVAL, and 4 more), is
paused, lacks its first list, differs in its last proof, or had a gap that could
not be recovered completely in the last 24 hours.

  exporter status
  exporter status -o json`

func newStatus() *cobra.Command {
	var out output
	c := withOutput(&cobra.Command{Use: "status [flags]", Short: "Show whether the export is healthy and complete", Long: statusHelp,
		Args: argCount(0, 0)}, &out)
	c.RunE = func(c *cobra.Command, _ []string) error { return showStatus(c, &out) }
	return withSettings(c, ofStatus)
}

func showStatus(c *cobra.Command, out *output) error {
	s, err := readStatus(c.Context(), c)
	if err != nil {
		return err
	}
	if err := out.print(c.OutOrStdout(), s, s.WriteTable); err != nil {
		return err
	}
	for _, note := range s.Notes {
		plain.Fprintln(c.ErrOrStderr(), "# "+note)
	}
	if !s.Healthy {
		return fmt.Errorf("%d wrong: %s: %s", len(s.Problems), s.Problems[0].Component, s.Problems[0].Text)
	}
	return nil
}

// readStatus reads the checkpoint; of an SQLite file, a copy.
func readStatus(ctx context.Context, c *cobra.Command) (*status.Status, error) {
	settings, cluster, err := readerSettings(ctx, c)
	if err != nil {
		return nil, err
	}
	store, err := setup.OpenPast(ctx, settings, cluster)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	stored, err := status.Read(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	o := status.Options{Cluster: cluster, Now: time.Now(), StaleAfter: status.StaleAfter(settings.Source.Watermarks)}
	notes := []string{"read from the checkpoint: states, rates and errors are known to the running exporters alone: their status pages"}
	if settings.Slots.Leases == "kubernetes" {
		if err := addOwners(ctx, c, settings, cluster, store, stored); err != nil {
			o.LeasesElsewhere = true
			notes = append(notes, "owners are those that took the slots last; whether they still live, their Lease objects say "+
				"(KUBECDC_LEASES), or an exporter's status page: "+plain.Redact(err.Error()))
		}
	}
	s := status.Make(o, stored, nil)
	s.Notes = append(s.Notes, notes...)
	return s, nil
}

// leasesLimit is short, since a status without the leases is better than none.
const leasesLimit = 5 * time.Second

// addOwners adds who owns the slots, where leases are objects of the cluster: of that which the checkpoint is of.
func addOwners(
	ctx context.Context, c *cobra.Command, settings *config.Config, cluster string, store checkpoint.Past, stored *status.Stored,
) error {
	_, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	server, err := discovery.Connect(connection.REST)
	if err != nil {
		return err
	}
	uid, err := store.ClusterUID(ctx)
	if err != nil {
		return err
	}
	server.Client().Expect(uid)
	ctx, cancel := context.WithTimeout(ctx, leasesLimit)
	defer cancel()
	owners, err := kubelease.Owners(ctx, connection.REST, server.Client().Guarded(), setup.LeaseNamespace(settings), cluster,
		time.Now().Add(-stored.Ahead))
	for i := range stored.Owners {
		if o := &stored.Owners[i]; owners[o.Slot] != "" {
			o.Owner, o.Held = owners[o.Slot], true
		}
	}
	return err
}
