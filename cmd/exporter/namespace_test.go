package main

import (
	"strings"
	"testing"

	"kubecdc/cmd/exporter/cli"
)

// A missing -n means the same in all commands, and their help says so.
func TestEveryHelpSaysWhatAMissingNamespaceMeans(t *testing.T) {
	said := 0
	for _, c := range newRoot(nil, nil).Commands() {
		if c.Flags().Lookup("all-namespaces") == nil {
			continue
		}
		if said++; !strings.Contains(c.Long, "Without -n\nevery command selects all namespaces, as with -A") {
			t.Errorf("the help of %s does not", c.Name())
		}
		if code, _, stderr := exporter(t, c.Name(), "-A", "-n", "shop", "--from=1h", "--at=1h", "pods"); code != cli.ExitSettings {
			t.Errorf("%s takes -A and -n: %s", c.Name(), stderr)
		}
	}
	if said != 11 {
		t.Errorf("%d commands select namespaces", said)
	}
}
