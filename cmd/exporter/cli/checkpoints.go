package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/setup"
)

// Stamp formats a time with microseconds, which is the precision of the store.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// Checkpoints is what a command about the history of checkpoints works with.
type Checkpoints struct {
	Store    checkpoint.Past // opened; the caller of OpenCheckpoints closes it
	Settings *config.Config
	Cluster  string
	Out      io.Writer
	Errs     io.Writer // stderr
	Now      time.Time
}

// OnCheckpoints returns a command that works on the history of the cluster's checkpoints.
func OnCheckpoints(c *cobra.Command, work func(ctx context.Context, p *Checkpoints, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		p, err := OpenCheckpoints(c)
		if err != nil {
			return err
		}
		defer p.Store.Close()
		return work(c.Context(), p, args)
	}
	return WithSettings(c, OfCheckpoint)
}

// OpenCheckpoints opens the history of checkpoints that the settings name.
func OpenCheckpoints(c *cobra.Command) (*Checkpoints, error) {
	settings, cluster, err := ReaderSettings(c.Context(), c)
	if err != nil {
		return nil, err
	}
	store, err := setup.OpenPast(c.Context(), settings, cluster)
	return &Checkpoints{store, settings, cluster, c.OutOrStdout(), c.ErrOrStderr(), time.Now()}, err
}
