package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// kubectl runs a program with this name as a plugin.
const (
	pluginProgram = "kubectl-past"
	pluginName    = "kubectl past"
)

// asPlugin gives the commands the plugin's name, and returns their arguments. The command kubectl gets those that begin with a
// moment. named names the program in a text.
func asPlugin(root *cobra.Command, args []string) (_ []string, named func(text string) string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: pluginName}
	names := []string{"--help"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	calls := regexp.MustCompile(`\bexporter (` + strings.Join(names, "|") + `)\b`)
	named = func(text string) string { return calls.ReplaceAllString(text, pluginName+" $1") }
	rename(root, named)
	if len(args) > 0 && (args[0] == "--at" || strings.HasPrefix(args[0], "--at=")) {
		args = append([]string{"kubectl"}, args...)
	}
	return args, named
}

// rename names the program in the help of a command, and of those below it.
func rename(c *cobra.Command, named func(string) string) {
	c.Short, c.Long, c.Example = named(c.Short), named(c.Long), named(c.Example)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = named(f.Usage) })
	for _, below := range c.Commands() {
		rename(below, named)
	}
}
