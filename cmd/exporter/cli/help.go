package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
)

// ExitCodes ends the help of every command.
const ExitCodes = `
Exit codes:
  0    done; run: stopped by a signal, after the batch in flight was committed;
       commands that go on until they are stopped (status --watch, tail, history
       --follow): stopped by Ctrl-C or SIGTERM
  1    failed, or not finished within KUBECDC_SHUTDOWN_TIMEOUT; diff and verify:
       something differs; check and status: something is wrong
  2    wrong settings, each named with a fix; or the API server belongs to
       another cluster than before; diff and verify: failed
  3    fenced: another process took over the slot, or writes to the same log with
       another checkpoint
  130  ended by Ctrl-C or SIGTERM before it was done; run: ended at once by a
       second signal, without loss: the next start resumes from the checkpoint
`

// Width is the width of --help in columns.
const Width = 80

const settingsElsewhere = `The settings of exporter run apply here too, as environment variables or flags.
Use those of your exporter. exporter run --help explains them.
`

const someSettings = settingsElsewhere + `A flag for a setting that this command can't use is refused. Its variable is ignored.
`

// WithSettings adds the flags of the settings that a command can use. The command's help says where they are explained.
func WithSettings(c *cobra.Command, can scope) *cobra.Command {
	if can == nil {
		return WithSettingsHelp(settingsElsewhere, c, can)
	}
	return WithSettingsHelp(someSettings, c, can)
}

// WithSettingsHelp adds the flags of the settings that a command can use, and a help that explains them.
func WithSettingsHelp(help string, c *cobra.Command, can scope) *cobra.Command {
	config.AddFlags(c.Flags(), can.has)
	completeSettings(c)
	c.SetUsageFunc(func(c *cobra.Command) error {
		return Write(c.OutOrStdout(), plain.Own("Usage: "+c.UseLine()+"\n\n"+ownFlags(c)+help+ExitCodes))
	})
	return c
}

// ownFlags explains the flags of a command that are not settings.
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
	return "Flags:\n" + own.FlagUsagesWrapped(Width) + "\n"
}

// synonyms are other programs' names for commands and flags.
var synonyms = map[string]string{"start": "run", "export": "run", "watch": "tail", "log": "tail, or logs", "events": "tail",
	"ls": "logs", "list": "state",
	"describe": "history", "blame": "history", "show": "state", "man": "--help", "undo": "restore", "delete": "forget",
	"stop":    "pause",
	"reverse": "exporter tail -n 20, which has the newest changes", "last": "exporter tail -n 20",
	"until": "--to of exporter diff"}

// UnknownCommand returns the error for arguments that name no command.
func UnknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, command := range c.Commands() {
		names = append(names, command.Name())
	}
	hint := suggest.DidYouMean(args[0], names)
	if meant := synonyms[args[0]]; meant != "" {
		hint = "did you mean " + meant + "? "
	}
	return fault.Usagef("unknown command %q\n%sexporter --help explains all", args[0], hint)
}

// Args returns the error for a wrong number of arguments.
func Args(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			hint := ""
			if most == 0 && c.Flags().Lookup("resources") != nil { // an extra argument is usually a resource
				hint = fmt.Sprintf("to select resources, use --resources %s\n", strings.Join(args, ","))
			}
			return fault.Usagef("%d arguments; use: %s\n%s%s --help explains all", len(args), c.UseLine(), hint, c.CommandPath())
		}
		return nil
	}
}

// FlagError returns the error for a flag that can't be parsed.
func FlagError(c *cobra.Command, err error) error {
	text, hint := err.Error(), ""
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		if setting := refusedSetting(c, name); setting != nil {
			return notUsed(c, setting)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint = strings.Replace(suggest.DidYouMean(name, names), "mean ", "mean --", 1)
		if meant := synonyms[name]; meant != "" && hint == "" {
			hint = "did you mean " + meant + "? "
		}
	}
	return fault.Usage(text + "\n" + hint + c.CommandPath() + " --help explains all")
}
