package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/plain"
	"kubecdc/setup"
	"kubecdc/sinks"
)

// OpenReader opens the log in the settings. It needs no API server if KUBECDC_CLUSTER or a kubeconfig's context names the
// cluster.
func OpenReader(ctx context.Context, c *cobra.Command) (sinks.ReadCloser, error) {
	settings, cluster, err := ReaderSettings(ctx, c)
	if err != nil {
		return nil, err
	}
	return setup.OpenLog(ctx, c.Name(), settings, cluster)
}

// WithNoMirror adds the flag --no-mirror.
func WithNoMirror(c *cobra.Command) {
	c.Flags().Bool(noMirror, false, "with Kafka: read the topics, although exporter serve fills a mirror of them on this machine")
}

const noMirror = "no-mirror"

// OpenMirrored is OpenReader, but it opens the mirror of the log if exporter serve fills one on this machine. A remark says so.
func OpenMirrored(ctx context.Context, c *cobra.Command) (reader sinks.ReadCloser, remark string, err error) {
	settings, cluster, err := ReaderSettings(ctx, c)
	if err != nil {
		return nil, "", err
	}
	return MirrorOrLog(ctx, c, settings, cluster)
}

// MirrorOrLog is OpenMirrored with these settings.
func MirrorOrLog(ctx context.Context, c *cobra.Command, settings *config.Config, cluster string) (reader sinks.ReadCloser,
	remark string, err error) {
	reader, err = setup.OpenLog(ctx, c.Name(), settings, cluster)
	from, isCopier := reader.(sinks.Copier)
	if err != nil || !isCopier || c.Flags().Changed(noMirror) {
		return reader, "", err
	}
	mirrored, path := setup.ReadMirror(ctx, from, settings, cluster)
	if mirrored == nil {
		return reader, "", nil
	}
	_ = reader.Close()
	return mirrored, "from the mirror of the topics in " + path, nil
}

// ReaderSettings returns the settings and the cluster's name, which it finds in --log's file, or like exporter run.
func ReaderSettings(ctx context.Context, c *cobra.Command) (*config.Config, string, error) {
	if chosen, ok := ctx.Value(oneOfSeveral{}).(*ClusterLog); ok {
		return chosen.settings, chosen.Name, nil
	}
	if file := c.Flags().Lookup("log"); file != nil && file.Value.String() != "" {
		return fileSettings(ctx, c, file.Value.String())
	}
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
	cluster := setup.NewCluster(connection)
	warning, err := cluster.ChooseLogToRead(ctx, settings)
	if err != nil {
		return nil, "", err
	}
	if warning != "" {
		plain.Fprintf(c.ErrOrStderr(), "# %s\n", warning)
	}
	if cluster.Cluster == "" {
		step := dependency.Step{Awaited: "the API server", Limit: setup.RequestLimit, Before: cluster.Before()}
		err = dependency.Once(ctx, step, func(ctx context.Context) error { return cluster.Identify(ctx, nil) })
	}
	return settings, cluster.Cluster, err
}

// OpenRequester opens the checkpoint, through which running exporters get requests.
func OpenRequester(ctx context.Context, c *cobra.Command) (*ask.Requester, error) {
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return nil, err
	}
	return ask.Open(ctx, settings, connection, c.OutOrStdout(), c.ErrOrStderr())
}
