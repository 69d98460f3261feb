package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
)

// Every command accepts the flag of a setting, or refuses it and says what to do instead. It names its own flag for the same
// purpose, if it has one. Only commands about the complete export accept all settings.
func TestSettingsThatACommandCantUseAreRefused(t *testing.T) {
	takesAll := []string{"exporter run", "exporter check", "exporter rbac"}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, each := range c.Commands() {
			visit(each)
		}
		if c.HasSubCommands() || c.Flags().Lookup("kubeconfig") == nil {
			return
		}
		all, refused := 0, 0
		for _, s := range config.Settings() {
			if all++; c.Flags().Lookup(s.Flag) != nil {
				continue
			}
			refused++
			err := c.FlagErrorFunc()(c, c.ParseFlags([]string{"--" + s.Flag + "=x"}))
			want := "--" + s.Flag + " is a setting of exporter run, which " + c.CommandPath() + " can't use: "
			if cli.ExitCode(err) != cli.ExitSettings || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s --%s: %v", c.CommandPath(), s.Flag, err)
			}
		}
		if takesAll := slices.Contains(takesAll, c.CommandPath()); takesAll != (refused == 0) || refused == all {
			t.Errorf("%s refuses %d of %d settings", c.CommandPath(), refused, all)
		}
	}
	visit(newRoot(io.Discard, io.Discard))
	for want, args := range map[string][]string{
		"an argument: exporter replay [TYPE":   {"replay", "--resources", "pods", "--from", "start", "--to-stdout"},
		"use --namespace, only this names":     {"replay", "--namespaces=a", "--from", "start", "--to-stdout"},
		"use --selector, only objects that":    {"replay", "--label-selector=a=b", "--from", "start", "--to-stdout"},
		"an argument: exporter snapshot TYPE":  {"snapshot", "--resources=pods"},
		"use --url, address of a running":      {"status", "--listen=:1"},
		"an argument: exporter tail [TYPE[":    {"tail", "--resources=pods"},
		"an argument: exporter pause STREAM":   {"pause", "--resources=pods"},
		"(KUBECDC_SLOTS in the environment is": {"history", "--slots=2", "pods", "a"},
		"did you mean --namespace?":            {"replay", "--namspace", "pods"},
	} {
		if code, _, stderr := exporter(t, args...); code != cli.ExitSettings || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}
