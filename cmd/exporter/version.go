package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"kubecdc/internal/plain"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = ""

// versionText returns the version, or the commit if the build set none.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  argCount(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := plain.Fprintln(c.OutOrStdout(), "kubecdc exporter "+versionText())
			return err
		},
	}
}
