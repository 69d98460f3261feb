package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv("TEST_AS_EXPORTER") != "" {
		main()
	}
	servers.Main(m)
}

// stuck starts an exporter that can't finish its batch in flight, since no process reads the pipe that it writes to.
func stuck(t *testing.T, settings ...string) (c *exec.Cmd, log *child.Output) {
	t.Helper()
	kube := servers.Kube(t)
	read, write, err := os.Pipe()
	must(t, err)
	address, err := servers.FreeAddress()
	must(t, err)
	c, log = exec.Command(os.Args[0], "run"), &child.Output{}
	c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "KUBECDC_SINK=stdout", "KUBECONFIG="+kube.Kubeconfig, "KUBECDC_LISTEN="+address,
		"KUBECDC_CHECKPOINT=sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
	c.Env = append(c.Env, settings...)
	c.Stdout, c.Stderr = write, log
	must(t, c.Start())
	write.Close()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		read.Close()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	e2e.Await(t, "the exporter to be ready", func() (bool, error) {
		answer, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false, nil
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
	return c, log
}

// exit waits for the end, and returns the exit code and how long it took.
func exit(t *testing.T, c *exec.Cmd) (code int, took time.Duration) {
	t.Helper()
	late, cancel := servers.Patient(t.Context())
	defer cancel()
	started := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
		return c.ProcessState.ExitCode(), time.Since(started)
	case <-late.Done():
		t.Fatal("it does not end")
		return 0, 0
	}
}

func TestWhatCantBeFinishedEndsAtTheShutdownTimeout(t *testing.T) {
	c, _ := stuck(t, "KUBECDC_SHUTDOWN_TIMEOUT=1s")
	must(t, c.Process.Signal(syscall.SIGTERM))
	if code, took := exit(t, c); code != cli.ExitFailed || took < time.Second/2 {
		t.Errorf("exit code %d after %s", code, took)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	c, log := stuck(t)
	for range 2 {
		must(t, c.Process.Signal(syscall.SIGINT))
		e2e.Await(t, "the first signal to be handled", func() (bool, error) { // two signals at one moment would count as one
			return strings.Contains(log.String(), "a second signal ends at once"), nil
		})
	}
	if code, took := exit(t, c); code != cli.ExitKilled {
		t.Errorf("exit code %d after %s", code, took)
	}
}
