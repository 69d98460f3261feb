package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/api"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/cmd/exporter/inspect"
	"kubecdc/cmd/exporter/past"
	"kubecdc/cmd/exporter/rewind"
	"kubecdc/cmd/exporter/run"
	"kubecdc/cmd/exporter/steer"
	"kubecdc/config"
	"kubecdc/internal/plain"
)

const rootHelp = `exporter turns the watch stream of a Kubernetes cluster into an ordered, complete, replayable log.

With only a kubeconfig it prints what happens in the cluster:

  exporter run

To keep a log in Kafka, with progress in Postgres:

  export KUBECDC_SINK=kafka KUBECDC_KAFKA_BROKERS=kafka-1:9092
  export KUBECDC_CHECKPOINT=postgres://kubecdc@db.example.com/kubecdc
  export KUBECDC_RESOURCES=pods,deployments.apps,*.example.com
  exporter check && exporter run

exporter run --help explains every setting. exporter status says whether all is well.`

// init makes --help list commands in the order of their use.
func init() { cobra.EnableCommandSorting = false }

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "exporter",
		Short:         "Change data capture for Kubernetes",
		Long:          rootHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.UnknownCommand,
	}
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return printVersion(c)
		}
		return c.Help()
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(cli.FlagError)
	addGroup(root, "Export:", run.New(), inspect.NewCheck(), inspect.NewStatus(), inspect.NewRBAC())
	addGroup(root, "Ask a running exporter:", steer.NewSnapshot(), steer.NewPause(), steer.NewResume(), steer.NewForget(),
		steer.NewSignals())
	addGroup(root, "Read the log:", past.NewHistory(), past.NewState(), past.NewDiff(), past.NewTail(), past.NewRestore(),
		inspect.NewLogs(), inspect.NewVerify(), inspect.NewSchema())
	addGroup(root, "Serve the log as a Kubernetes API:", api.NewServe(), api.NewKubeconfig(), api.NewKubectl(), api.NewMCP())
	addGroup(root, "Go back in the log:", rewind.NewCheckpoints(), rewind.NewReplay())
	root.AddCommand(newVersion())
	moreCommands(root)
	withExitCodes(root)
	return root
}

// addGroup adds commands that --help shows as a group.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// withExitCodes adds the exit codes to cobra's usage text. It uses no template: in a program that executes templates the linker
// must retain every exported method, which makes it 10 MB larger.
func withExitCodes(root *cobra.Command) {
	own := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if err := own(c); err != nil {
			return err
		}
		return cli.Write(c.OutOrStderr(), cli.ExitCodes)
	})
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	named := func(text string) string { return text }
	if filepath.Base(os.Args[0]) == pluginProgram {
		args, named = asPlugin(root, args)
	}
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	code := cli.ExitCodeOf(c, err)
	if err == nil || code == cli.ExitKilled {
		return code
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok && c.Name() == "kubectl" && e.ExitCode() > 0 { // kubectl has said why
		return e.ExitCode()
	}
	text := err.Error()
	if !config.IsError(err) { // config's errors show no password, but have URLs with the words USER and PASSWORD
		text = plain.Redact(text)
	}
	plain.Fprintf(stderr, "%s: %s\n", root.DisplayName(), plain.Own(plain.Lines(named(text))))
	return code
}
