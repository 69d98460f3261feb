package main

import (
	"cmp"
	"runtime"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = ""

func init() { cli.Version = cmp.Or(version, cli.Version) }

func newVersion() *cobra.Command {
	var out cli.Output
	c := &cobra.Command{Use: "version [flags]", Short: "Print the version", Args: cli.Args(0, 0)}
	out.Flag(c, "text", "json", "yaml")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if out.Format == "text" {
			return printVersion(c)
		}
		return out.Print(c.OutOrStdout(), map[string]string{"version": cli.Version, "goVersion": runtime.Version(),
			"platform": runtime.GOOS + "/" + runtime.GOARCH}, nil)
	}
	return c
}

func printVersion(c *cobra.Command) error {
	_, err := plain.Fprintln(c.OutOrStdout(), "kubecdc exporter "+cli.Version)
	return err
}
