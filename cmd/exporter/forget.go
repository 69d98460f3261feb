package main

import (
	"context"
	"errors"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export"
	"kubecdc/internal/plain"
	"kubecdc/setup"
)

const forgetHelp = `Forget streams that are not selected any more.

A stream is one resource, or one resource in one namespace (pods, pods@shop). When
the settings stop selecting it, it ends: the control topic has a stream-end record,
and the checkpoint keeps its position and the last state of each object. If it is
selected again, it resumes there and exports what happened meanwhile.

Forget drops that from the checkpoint. The log is left as it is. If the stream is
selected again later, it begins with a snapshot, as a new one does, and objects
deleted meanwhile get no delete record.

Without arguments it lists the streams that have ended. If an exporter runs, it is
asked to forget them; with a checkpoint in an SQLite file, stop it first.

  exporter forget                    # list the streams that have ended
  exporter forget pods@shop nodes    # forget two of them`

func newForget() *cobra.Command {
	c := withSettings(&cobra.Command{Use: "forget [STREAM...] [flags]", Short: "Forget streams that are not selected any more",
		Long: forgetHelp}, ofRequests)
	noWait := addNoWait(c)
	c.RunE = func(c *cobra.Command, streams []string) error {
		if len(streams) == 0 {
			p, err := readPast(c)
			if err != nil {
				return err
			}
			defer p.store.Close()
			return listEnded(c.Context(), p.store, p.out)
		}
		a, err := openRequester(c.Context(), c)
		if err != nil {
			return err
		}
		defer a.close()
		return a.forget(c.Context(), streams, !*noWait)
	}
	return c
}

// forget forgets streams. It asks the exporters to do that which hold their slots.
func (a *requester) forget(ctx context.Context, streams []string, wait bool) error {
	owner := export.Config{Slots: a.settings.Slots.Count, Owner: setup.Owner(), LeaseDuration: a.settings.Slots.LeaseDuration}
	found, err := a.named(ctx, streams)
	if err != nil {
		return err
	}
	var requests []checkpoint.Signal
	for _, p := range found {
		var not *checkpoint.NotEndedError
		var held *checkpoint.HeldError
		err := export.Forget(ctx, owner, a.store, p.Stream)
		switch {
		case errors.As(err, &not):
			return &usageError{err.Error() + ": only a stream that is not selected any more can be forgotten; exporter forget lists them"}
		case errors.As(err, &held):
			requests = append(requests, checkpoint.Signal{Kind: change.SignalForget, Stream: p.Stream})
		case err != nil:
			return err
		default:
			plain.Fprintf(a.out, "%s: forgotten\n", p.Stream)
		}
	}
	if len(requests) == 0 {
		return nil
	}
	return a.ask(ctx, requests, wait)
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
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	plain.Fprintf(t, "STREAM\tCOMPLETE UP TO\tAT\n")
	for _, p := range ended {
		plain.Fprintf(t, "%s\t%s\t%s\n", p.Stream, p.ResourceVersion, p.Time.Format(time.RFC3339))
	}
	return t.Flush()
}
