package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/cmd/exporter/cli"
)

// Names need no cluster. If two names are the same objects, only the first is exported.
func TestRBACPrintsTheRightsOfTheSettings(t *testing.T) {
	for name, args := range map[string][]string{
		"rbac": {"--resources=pods,events,events.events.k8s.io,deployments.v1.apps,configmaps"},
		"rbac-namespaces": {"--resources=pods", "--namespaces=shop,blog", "--name=cdc", "-n=ops",
			"--aggregate", "-o=json"},
		"rbac-user": {"--resources=pods", "--user=https://id.example.com#alice"},
	} {
		code, got, stderr := exporter(t, append([]string{"rbac"}, args...)...)
		if code != cli.ExitOK || stderr != "" {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			must(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("rbac %v differs from %s (%v):\n%s", args, golden, err, got)
		}
	}
}

func TestRBACSaysThatPatternsNeedACluster(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--resources=pods,*.apps", "(full names need no cluster: pods, deployments.apps)"},
		{"--resources=pods,deploy", "(full names need no cluster: pods, deployments.apps)"},
		{"-o=xml", "-o xml: the output is one of yaml, json"},
		{"--resources=Pods", "KUBECDC_RESOURCES"},
	} {
		if code, _, stderr := exporter(t, "rbac", c.args); code != cli.ExitSettings || !strings.Contains(stderr, c.want) {
			t.Errorf("rbac %s: exit code %d, lacks %q\n%s", c.args, code, c.want, stderr)
		}
	}
}
