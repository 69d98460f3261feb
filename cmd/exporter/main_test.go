package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kubecdc/checkpoint"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/export/session"
	"kubecdc/sinks"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing")

// exporter runs one command line in a clean environment.
func exporter(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "KUBE") {
			t.Setenv(name, "")
		}
	}
	var out, errs bytes.Buffer
	code = execute(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestHelpTeaches(t *testing.T) {
	for name, args := range map[string][]string{
		"help": {"--help"}, "run-help": {"run", "--help"}, "check-help": {"check", "--help"},
		"forget-help": {"forget", "--help"}, "signals-help": {"signals", "--help"}, "schema-help": {"schema", "--help"},
		"history-help": {"history", "--help"}, "state-help": {"state", "--help"}, "diff-help": {"diff", "--help"},
		"tail-help": {"tail", "--help"},
	} {
		code, got, stderr := exporter(t, args...)
		if code != cli.ExitOK || stderr != "" {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			must(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		if err != nil || got != string(want) {
			t.Errorf("%v differs from %s (%v); to take it over: go test ./cmd/exporter -args -update\n%s", args, golden, err, got)
		}
	}
}

// Each command's help has an example. A flag has the same letter in all commands, and help explains it once. The help that an
// error names exists.
func TestCommandsAreAlike(t *testing.T) {
	letters := map[string]string{"namespace": "n", "selector": "l", "output": "o", "follow": "f"}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, each := range c.Commands() {
			visit(each)
			if each.Name() != "version" && !strings.Contains(each.Long, "\n  "+each.CommandPath()) {
				t.Errorf("the help of %s has no example", each.CommandPath())
			}
		}
		for name, letter := range letters {
			flag := c.Flags().Lookup(name)
			if flag == nil {
				continue
			}
			if flag.Shorthand != letter {
				t.Errorf("%s --%s has the letter %q, not %q", c.CommandPath(), name, flag.Shorthand, letter)
			}
			if n := strings.Count(c.UsageString(), "-"+letter+", --"+name); n != 1 {
				t.Errorf("%s explains --%s %d times", c.CommandPath(), name, n)
			}
		}
	}
	visit(newRoot(io.Discard, io.Discard))
	for _, wrong := range []string{"1h", "--nope"} {
		if _, _, stderr := exporter(t, "checkpoints", "list", wrong); !strings.Contains(stderr, "exporter checkpoints list --help") {
			t.Errorf("%s: %s", wrong, stderr)
		}
	}
}

func TestWrongSettingsEndWithCode2(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--sink", "kafak"},
		{"check", "--page-size=0"},
		{"run", "--kafka-borkers=h:1"},
		{"run", "extra"},
		{"verify", "-o", "xml"},
		{"tail", "-o", "yml"},
		{"diff", "--from=1h", "--clock=local"},
		{"rum"},
		{"checkpoints", "lst"},
		{"signals", "abort"},
	} {
		if code, _, stderr := exporter(t, args...); code != cli.ExitSettings || !strings.HasPrefix(stderr, "exporter: ") {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
	_, _, stderr := exporter(t, "run", "--sink=kafak", "--page-size=0")
	for _, want := range []string{"3 settings are wrong", "KUBECONFIG (--kubeconfig)", "KUBECDC_SINK (--sink)", "KUBECDC_PAGE_SIZE (--page-size)"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("lacks %q:\n%s", want, stderr)
		}
	}
	if code, _, stderr := exporter(t, "status"); code != cli.ExitSettings || !strings.Contains(stderr, "or set KUBECDC_CLUSTER") {
		t.Errorf("a command that needs only the name of the cluster: exit code %d\n%s", code, stderr)
	}
	if _, _, stderr := exporter(t, "run", "--kafka-borkers=h:1"); !strings.Contains(stderr, "did you mean --kafka-brokers?") {
		t.Error(stderr)
	}
	if _, _, stderr := exporter(t, "run", "pods", "nodes"); !strings.Contains(stderr, "use --resources pods,nodes") {
		t.Error(stderr)
	}
	if _, _, stderr := exporter(t, "rum"); !strings.Contains(stderr, "did you mean run?") {
		t.Error(stderr)
	}
	if _, _, stderr := exporter(t, "run", "--sink=postgres"); !strings.Contains(stderr, "set it, such as postgres://kubecdc@db.example.com/cdc") {
		t.Error(stderr)
	}
}

func TestAListenAddressInUseEndsWithCode2(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(kubeconfig, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`), 0o600))
	code, _, stderr := exporter(t, "run", "--kubeconfig", kubeconfig, "--listen", taken.Addr().String())
	if code != cli.ExitSettings || !strings.Contains(stderr, "choose another port") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, cli.ExitOK},
		{errors.New("x"), cli.ExitFailed},
		{&config.Error{}, cli.ExitSettings},
		{fmt.Errorf("x: %w", context.Canceled), cli.ExitKilled},
		{errors.Join(session.ErrShutdownTimeout, context.Canceled), cli.ExitFailed},
		{fmt.Errorf("x: %w", checkpoint.ErrFenced), cli.ExitFenced},
		{errors.Join(checkpoint.ErrFenced, context.Canceled), cli.ExitFenced}, // one slot's end stops the others
		{errors.Join(&sinks.OtherClusterError{}, context.Canceled), cli.ExitSettings},
		{fmt.Errorf("x: %w", sinks.ErrInvalidWriter), cli.ExitFailed}, // the checkpoint decides whether another process took over
	} {
		if got := cli.ExitCode(c.err); got != c.code {
			t.Errorf("%v: %d, want %d", c.err, got, c.code)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		if code, out, _ := exporter(t, arg); code != 0 || !strings.HasPrefix(out, "kubecdc exporter ") {
			t.Error(arg, code, out)
		}
	}
	var fields map[string]string
	code, out, _ := exporter(t, "version", "-o", "json")
	if err := json.Unmarshal([]byte(out), &fields); err != nil || code != 0 || fields["version"] == "" || fields["goVersion"] == "" {
		t.Error(code, out, err)
	}
}

func TestWrongPathsAreNamed(t *testing.T) {
	for _, wrong := range []string{"jsonpath", "jsonpath={.a", "json=x", "names"} {
		code, _, stderr := exporter(t, "tail", "-o", wrong)
		if code != cli.ExitSettings || !strings.Contains(stderr, "-o "+wrong+": ") {
			t.Errorf("-o %s: %d, %s", wrong, code, stderr)
		}
	}
}
