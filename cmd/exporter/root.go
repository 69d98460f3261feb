package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
	"kubecdc/internal/usage"
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

const exitCodes = `
Exit codes:
  0    done; for run: stopped by a signal, and the batch in flight is committed;
       for what else goes on until it is stopped (status --watch, tail, history
       --follow): stopped by Ctrl-C or SIGTERM
  1    failed, or not finished within KUBECDC_SHUTDOWN_TIMEOUT; for diff and
       verify: something differs; for check and status: something is wrong
  2    wrong settings: each one is named, with a fix; or the API server is of
       another cluster than before; for diff and verify: failed
  3    fenced: another process took over the slot, or writes the same log with
       another checkpoint
  130  ended by Ctrl-C or SIGTERM before it was done; for run: at once, by a
       second one; nothing is lost: the next start resumes from the checkpoint
`

// width of --help.
const width = 80

// --help has commands in the order of their use.
func init() { cobra.EnableCommandSorting = false }

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "exporter",
		Short:         "Change data capture for Kubernetes",
		Long:          rootHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          unknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	addGroup(root, "Export:", newRun(), newCheck(), newStatus(), newRBAC())
	addGroup(root, "Ask a running exporter:", newSnapshot(), newPause(), newResume(), newForget(), newSignals())
	addGroup(root, "Read the log:", newHistory(), newState(), newDiff(), newTail(), newVerify(), newSchema())
	addGroup(root, "Serve the log as a Kubernetes API:", newServe(), newKubeconfig(), newKubectl())
	addGroup(root, "Go back in the log:", newCheckpoints(), newReplay())
	root.AddCommand(newVersion())
	withExitCodes(root)
	return root
}

// addGroup adds commands that --help shows together.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// withExitCodes adds the exit codes to cobra's usage text. A template could do that too, but a program that can execute
// templates is 10 MB larger: the linker must keep every exported method of every type.
func withExitCodes(root *cobra.Command) {
	own := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if err := own(c); err != nil {
			return err
		}
		return write(c.OutOrStderr(), exitCodes)
	})
}

const settingsElsewhere = `The settings of exporter run count here too, as environment variables or flags:
use those of your exporter. exporter run --help explains them.
`

const someSettings = settingsElsewhere + `A flag of one that this command can't use is refused; a variable is ignored.
`

// withSettings adds the flags of the settings that a command can use. Its help says where they are explained.
func withSettings(c *cobra.Command, can scope) *cobra.Command {
	if can == nil {
		return withSettingsHelp(settingsElsewhere, c, can)
	}
	return withSettingsHelp(someSettings, c, can)
}

func withSettingsHelp(help string, c *cobra.Command, can scope) *cobra.Command {
	config.AddFlags(c.Flags(), can.has)
	c.SetUsageFunc(func(c *cobra.Command) error {
		return write(c.OutOrStdout(), plain.Own("Usage: "+c.UseLine()+"\n\n"+ownFlags(c)+help+exitCodes))
	})
	return c
}

// ownFlags explains the flags of a command that are no settings.
func ownFlags(c *cobra.Command) string {
	settings, own := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(settings, nil)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if settings.Lookup(f.Name) == nil && f.Name != "help" {
			own.AddFlag(f)
		}
	})
	if !own.HasFlags() {
		return ""
	}
	return "Flags:\n" + own.FlagUsagesWrapped(width) + "\n"
}

// unknownCommand gives the error for arguments that name no command.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, command := range c.Commands() {
		names = append(names, command.Name())
	}
	hint := suggest.DidYouMean(args[0], names)
	return usage.Errorf("unknown command %q\n%sexporter --help explains all", args[0], hint)
}

// argCount gives the error for a wrong number of arguments.
func argCount(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			hint := ""
			if most == 0 && c.Flags().Lookup("resources") != nil { // a stray word is mostly a resource
				hint = fmt.Sprintf("to select resources, use --resources %s\n", strings.Join(args, ","))
			}
			return usage.Errorf("%d arguments; use: %s\n%s%s --help explains all", len(args), c.UseLine(), hint, c.CommandPath())
		}
		return nil
	}
}

func flagError(c *cobra.Command, err error) error {
	text, hint := err.Error(), ""
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		if setting := refusedSetting(c, name); setting != nil {
			return notUsed(c, setting)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = suggest.DidYouMean("--"+name, names)
	}
	return usage.Error(text + "\n" + hint + c.CommandPath() + " --help explains all")
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	code := exitCodeOf(c, err)
	if err == nil || code == exitKilled {
		return code
	}
	text := err.Error()
	if !config.IsError(err) { // which shows no password; its fixes have URLs with the words USER and PASSWORD
		text = plain.Redact(text)
	}
	plain.Fprintf(stderr, "exporter: %s\n", plain.Own(plain.Lines(text)))
	return code
}
