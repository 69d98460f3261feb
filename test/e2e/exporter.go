// Package e2e tests the complete exporter: the real binary, real servers, and etcd's own history as the truth.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kubecdc/test/child"
	"kubecdc/test/exporter"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// Binary builds the exporter once per test process, with failpoints, and returns its path. The build verifies the invariants of
// docs/design.md.
func Binary(t testing.TB) string {
	t.Helper()
	buildOnce.Do(func() {
		dir, err := os.MkdirTemp("", "kubecdc-e2e-")
		if err != nil {
			buildErr = err
			return
		}
		binary = filepath.Join(dir, "exporter")
		buildErr = exporter.Build(context.Background(), binary, "-tags", "failpoints,invariants")
	})
	if buildErr != nil {
		t.Fatal(buildErr)
	}
	return binary
}

var (
	buildOnce sync.Once
	binary    string
	buildErr  error
)

// Exporter is one running process of the exporter.
type Exporter struct {
	*exporter.Process
	log  *child.Output
	out  *child.Output // stdout, to which KUBECDC_SINK=stdout writes
	name string

	start func() (*exporter.Process, error)
}

// Main is the TestMain of a package that starts exporters. It runs the tests, and removes the binary that was built for them.
func Main(m *testing.M) { servers.Main(tests{m}) }

type tests struct{ *testing.M }

func (t tests) Run() int {
	state, err := os.MkdirTemp("", "kubecdc-e2e-state-")
	if err == nil {
		defer os.RemoveAll(state)
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		panic(err)
	}
	code := t.M.Run()
	if binary != "" {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	return code
}

// Command returns a command line of the exporter that has these settings, and no others.
func Command(t testing.TB, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(Binary(t), args...)
	c.Env = append(child.Environ(), settings(env)...)
	return c
}

func settings(env map[string]string) (list []string) {
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// StartExporter starts a process, which is killed at the test's end. env adds to and overrides the defaults.
func StartExporter(t testing.TB, name string, env map[string]string) *Exporter {
	t.Helper()
	return StartBinary(t, Binary(t), name, env)
}

// StartBinary starts a process of an exporter that was built elsewhere.
func StartBinary(t testing.TB, binary, name string, env map[string]string) *Exporter {
	t.Helper()
	e := &Exporter{log: &child.Output{}, out: &child.Output{}, name: name}
	all := append([]string{"KUBECDC_SHUTDOWN_TIMEOUT=2m"}, settings(env)...)
	e.start = func() (*exporter.Process, error) { return exporter.Start(binary, all, e.out, e.log) }
	var err error
	e.Process, err = e.start()
	must(t, err)
	t.Cleanup(func() {
		e.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, e.Tail(6000))
		}
	})
	return e
}

// restartIfOvertaken starts an exporter again that was overtaken, as Kubernetes does. On a loaded machine that happens to one that gets
// no processor for longer than a lease. Another end is an error.
func (e *Exporter) restartIfOvertaken() (err error) {
	if err = e.ended(); err != nil && e.Cmd.ProcessState.ExitCode() == 3 {
		e.Process, err = e.start()
	}
	return err
}

// ended returns an error if the process has ended.
func (e *Exporter) ended() error {
	if e.Running() {
		return nil
	}
	return fmt.Errorf("%s has ended with %d:\n%s", e.name, e.Cmd.ProcessState.ExitCode(), e.Tail(4000))
}

// Signal sends a signal to the process.
func (e *Exporter) Signal(s syscall.Signal) { _ = e.Cmd.Process.Signal(s) }

// Wait waits for the end and returns the exit code.
func (e *Exporter) Wait(t testing.TB) int {
	t.Helper()
	late, cancel := servers.Patient(context.Background())
	defer cancel()
	select {
	case <-e.Done():
		return e.Cmd.ProcessState.ExitCode()
	case <-late.Done():
		t.Fatalf("%s still runs:\n%s", e.name, e.Tail(4000))
		return 0
	}
}

// Ready requests /readyz once.
func (e *Exporter) Ready() bool { return e.Process.Ready(context.Background()) == nil }

// AwaitReady waits for /readyz, and returns the exporter.
func (e *Exporter) AwaitReady(t testing.TB) *Exporter {
	t.Helper()
	Await(t, e.name+" to be ready", func() (bool, error) {
		if err := e.ended(); err != nil {
			return false, err
		}
		return e.Ready(), nil
	})
	return e
}

// get sends a request to the exporter's server.
func (e *Exporter) get(path string) (string, error) {
	client := http.Client{Timeout: 5 * time.Minute}
	resp, err := client.Get("http://" + e.Listen + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// Wrong returns the problems in /readyz, one line "component: problem" each.
func (e *Exporter) Wrong() string {
	text, err := e.get("/readyz")
	if err != nil {
		return err.Error()
	}
	var report struct {
		Wrong []struct {
			Component, Problem string
			Names              []string
		}
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return err.Error()
	}
	var lines []string
	for _, w := range report.Wrong {
		if w.Component == "streams" {
			w.Component += " " + strings.Join(w.Names, ", ")
		}
		lines = append(lines, w.Component+": "+w.Problem)
	}
	return strings.Join(lines, "\n")
}

// Output returns all that the process wrote to stdout.
func (e *Exporter) Output() string { return string(e.out.Bytes()) }

// Tail returns the last n bytes of the process's log.
func (e *Exporter) Tail(n int) string {
	b := e.log.Bytes()
	return string(b[max(0, len(b)-n):])
}

// Await is servers.Await.
var Await = servers.Await

var must = require.NoError
