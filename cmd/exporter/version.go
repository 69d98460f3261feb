package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = ""

func init() { cli.Version = cmp.Or(version, cli.Version) }

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Args(0, 0),
		RunE:  func(c *cobra.Command, _ []string) error { return printVersion(c) },
	}
}

func printVersion(c *cobra.Command) error {
	_, err := plain.Fprintln(c.OutOrStdout(), "kubecdc exporter "+cli.Version)
	return err
}
