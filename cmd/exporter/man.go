//go:build man

package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kubecdc/cmd/exporter/cli"
)

// moreCommands adds the command that writes the man pages. Only make man includes it, since it makes a program a third larger.
func moreCommands(root *cobra.Command) {
	root.AddCommand(&cobra.Command{Use: "man FOLDER", Hidden: true, Args: cli.Args(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			pages := newRoot(io.Discard, io.Discard)
			pages.DisableAutoGenTag = true
			return doc.GenManTree(pages, &doc.GenManHeader{Title: "EXPORTER", Section: "1", Source: "kubecdc"}, args[0])
		}})
}
