package cli

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/setup"
	"kubecdc/source/discovery"
)

// ServedNow asks the API server which resources it serves.
func ServedNow(c *cobra.Command, limit time.Duration) (served discovery.Served, err error) {
	_, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return served, err
	}
	cluster := setup.NewCluster(connection)
	server, err := discovery.Connect(cluster.REST)
	if err != nil {
		return served, err
	}
	step := dependency.Step{Awaited: "the API server", Address: server.Host(), Limit: limit, Before: cluster.Before()}
	err = dependency.Once(c.Context(), step, func(ctx context.Context) (err error) {
		served, err = server.Served(ctx)
		return err
	})
	return served, err
}
