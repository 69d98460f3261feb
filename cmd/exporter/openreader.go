package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kubecdc/config"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
)

// openReader opens the log that the settings name. It needs no API server if KUBECDC_CLUSTER or a kubeconfig's context names the
// cluster.
func openReader(ctx context.Context, c *cobra.Command) (sinks.Reader, error) {
	settings, cluster, err := readerSettings(ctx, c)
	if err != nil {
		return nil, err
	}
	return openLog(ctx, c, settings, cluster)
}

// openLog opens the log of a cluster, for a command.
func openLog(ctx context.Context, c *cobra.Command, settings *config.Config, cluster string) (sinks.Reader, error) {
	if sinkOf(settings).read == nil {
		return nil, &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_SINK", Value: settings.Sink.Kind,
			What: "what it writes can't be read back",
			Fix:  "set it to the sink whose log exporter " + c.Name() + " shall read: kafka or postgres"}}}
	}
	var reader sinks.Reader
	step := startup.Step{For: "the log", At: sinkAddress(settings), Limit: openLimit}
	err := startup.Once(ctx, step, func(ctx context.Context) (err error) {
		reader, err = sinkOf(settings).read(ctx, settings, cluster)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the log of cluster %s: %w", cluster, err)
	}
	if err := mustHave(ctx, reader, settings, cluster); err != nil {
		reader.Close()
		return nil, err
	}
	return reader, nil
}

// mustHave returns an error if the log has nothing of the cluster: then every answer would be that there was nothing.
func mustHave(ctx context.Context, r sinks.Reader, settings *config.Config, cluster string) error {
	end, err := r.End(ctx)
	if err != nil || len(end.Batches) > 0 {
		return err
	}
	found := errors.New("a change was found") // though its control records are not kept any more
	err = r.Changes(ctx, sinks.Query{NoBodies: true}, func(*sinks.Logged) error { return found })
	switch {
	case err == nil:
		return fmt.Errorf("the log (%s) has nothing of cluster %q: set KUBECDC_CLUSTER and the settings of the sink as "+
			"exporter run has them", sinkAddress(settings), cluster)
	case errors.Is(err, found):
		return nil
	}
	return err
}

// readerSettings reads the settings and finds the cluster's name as run does.
func readerSettings(ctx context.Context, c *cobra.Command) (*config.Config, string, error) {
	settings, _, wrong := config.Load(os.Environ(), c.Flags())
	if wrong == nil && settings.Source.Cluster != "" {
		return settings, settings.Source.Cluster, nil
	}
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil && wrong == nil {
		err = fmt.Errorf("%w\nor set KUBECDC_CLUSTER to the name of the cluster in the log: no kubeconfig is needed then", err)
	}
	if err != nil {
		return nil, "", err
	}
	cluster := newTarget(connection)
	if cluster.Cluster == "" {
		step := startup.Step{For: "the API server", Limit: requestLimit, Progress: cluster.reach.progress}
		err = startup.Once(ctx, step, func(ctx context.Context) error { return cluster.identify(ctx, nil) })
	}
	return settings, cluster.Cluster, err
}
