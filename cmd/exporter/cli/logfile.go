package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/suggest"
	"kubecdc/sinks/sqlite"
)

// ReadsLog adds the flags of the settings that say where the log is, and --log for one in a file.
func ReadsLog(c *cobra.Command, can scope) *cobra.Command {
	c.Flags().String("log", "", "read the SQLite log in this `file`, whatever the settings say. It knows its cluster; "+
		"--cluster chooses one of several")
	_ = c.MarkFlagFilename("log", "db")
	return WithSettings(c, can)
}

// fileSettings returns the settings for the log in a file, and the cluster that it is of.
func fileSettings(ctx context.Context, c *cobra.Command, path string) (*config.Config, string, error) {
	for _, flag := range []string{"sink", "checkpoint"} {
		if c.Flags().Changed(flag) {
			return nil, "", fault.Usagef("--log and --%s both say where the log is: leave one out", flag)
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	names, err := sqlite.Clusters(ctx, path)
	if err != nil {
		return nil, "", fmt.Errorf("--log: %w", err)
	}
	settings, _, err := config.Load(inFile(path), c.Flags())
	if err != nil {
		return nil, "", err
	}
	switch asked := settings.Source.Cluster; {
	case slices.Contains(names, asked):
		return settings, asked, nil
	case c.Flags().Changed("cluster"):
		return nil, "", fault.Usagef("--cluster: the log %s has no cluster %q: %sit has %s", path, asked,
			suggest.DidYouMean(asked, names), strings.Join(names, ", "))
	case len(names) != 1:
		return nil, "", fault.Usagef("the log %s has several clusters: --cluster must be one of %s", path,
			strings.Join(names, ", "))
	}
	return settings, names[0], nil
}

// inFile returns the environment in which the log is in a file.
func inFile(path string) []string {
	return append(os.Environ(), "KUBECDC_SINK=sqlite", "KUBECDC_CHECKPOINT=sqlite:"+path)
}
