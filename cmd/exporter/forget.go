package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/internal/startup"
)

const forgetHelp = `Forget streams that are not selected any more.

A stream is one resource, or one resource in one namespace (pods, pods@shop). When
the settings stop selecting it, it ends: the control topic has a stream-end record,
and the checkpoint keeps how far the stream was and what it knows of each object.
If it is selected again, it goes on from there, and tells what happened meanwhile.

Forget drops that from the checkpoint. The log is left as it is. If the stream is
selected again later, it begins with a snapshot, as a new one does, and what was
deleted meanwhile is never told.

Without arguments it lists the streams that have ended. Stop all exporters first:
a stream whose slot is held is refused.

  exporter forget                    # list the streams that have ended
  exporter forget pods@shop nodes    # forget two of them`

func newForget() *cobra.Command {
	return withSettings(&cobra.Command{
		Use:   "forget [STREAM...] [flags]",
		Short: "Forget streams that are not selected any more",
		Long:  forgetHelp,
		RunE:  func(c *cobra.Command, streams []string) error { return forget(c.Context(), c, streams) },
	})
}

func forget(ctx context.Context, c *cobra.Command, streams []string) error {
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	cluster := newTarget(connection)
	step := startup.Step{For: "the API server and the checkpoint", Limit: openLimit, Far: cluster.reach.far}
	var store checkpoint.Store
	err = startup.Once(ctx, step, func(ctx context.Context) (err error) {
		store, err = boundStore(ctx, settings, cluster)
		return err
	})
	if err != nil {
		return err
	}
	defer store.Close()
	if len(streams) == 0 {
		return listEnded(ctx, store, c.OutOrStdout())
	}
	leases, err := openLeases(settings, cluster, store)
	if err != nil {
		return err
	}
	owner := export.Config{Slots: settings.Slots.Count, Owner: owner(), LeaseDuration: settings.Slots.LeaseDuration}
	for _, stream := range streams {
		var not *checkpoint.NotEndedError
		err := export.Forget(ctx, owner, store, leases, change.StreamID(stream))
		if errors.As(err, &not) {
			return &usageError{err.Error() + ": only a stream that is not selected any more can be forgotten; exporter forget lists them"}
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), "forgotten: "+stream)
	}
	return nil
}

// boundStore opens the checkpoint of the cluster.
func boundStore(ctx context.Context, settings *config.Config, cluster *target) (checkpoint.Store, error) {
	if err := cluster.identify(ctx, nil); err != nil {
		return nil, err
	}
	store, where, err := openStore(ctx, nil, settings, cluster)
	if err != nil {
		return nil, fmt.Errorf("open the checkpoint: %w", err)
	}
	if err := cluster.bind(ctx, nil, store, where, slog.New(slog.DiscardHandler)); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

func listEnded(ctx context.Context, store checkpoint.Reader, out io.Writer) error {
	ended, err := export.EndedStreams(ctx, store)
	if err != nil {
		return err
	}
	if len(ended) == 0 {
		fmt.Fprintln(out, "no stream has ended")
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "STREAM\tCOMPLETE UP TO\tAT")
	for _, p := range ended {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.Stream, p.ResourceVersion, p.Time.Format(time.RFC3339))
	}
	return t.Flush()
}
