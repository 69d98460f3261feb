// Package compat has other people's consumers read the exporter's topics. make compat runs it, and writes its results to
// docs/consumers.md. The page retains the results of consumers that it does not run.
//
// Each consumer's table is compared with the objects of the API server: their number, and a hash of all keys and contents. Start reading
// at trial_test.go. consumers_test.go has the consumers.
package compat

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"kubecdc/test/e2e"
	"kubecdc/test/require"
)

func TestMain(m *testing.M) { e2e.Main(m) }

func TestConsumers(t *testing.T) {
	only := os.Getenv("KUBECDC_TEST_COMPAT")
	if only == "" || only == "duckdb" {
		t.Skip("it installs other people's programs, and takes minutes: make compat runs it")
	}
	chosen, err := choose(only)
	must(t, err)
	trial := newTrial(t, chosen)
	defer func() {
		must(t, trial.writePage(context.Background(), "../../docs/consumers.md", "results.json"))
	}()
	trial.run(t)
	must(t, trial.verdict())
}

// choose returns the consumers of these names, separated by commas, or all.
func choose(only string) (chosen []consumer, err error) {
	if only == "all" {
		return consumers, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		before := len(chosen)
		for _, c := range consumers {
			if c.name == name {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("%s: no such consumer; there are %s", name, names(consumers))
		}
	}
	return chosen, nil
}

func names(all []consumer) string {
	var list []string
	for _, c := range all {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}

var must = require.NoError
