// Package exporter starts processes of this checkout's exporter, for tests and the demo.
package exporter

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// Process is one of exporter run.
type Process struct {
	*child.Child
	Cmd    *exec.Cmd
	Listen string // the address of its HTTP server
}

// Build builds the program, with flags of go build.
func Build(ctx context.Context, binary string, flags ...string) error {
	args := slices.Concat([]string{"build"}, flags, []string{"-o", binary, "kubecdc/cmd/exporter"})
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the exporter: %w\n%s", err, out)
	}
	return nil
}

// Start starts a process that has these settings (NAME=value), and no others.
func Start(binary string, settings []string, out, log io.Writer) (*Process, error) {
	listen, err := servers.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Cmd: exec.Command(binary, "run"), Listen: listen}
	p.Cmd.Env = slices.Concat(child.Environ(), []string{"KUBECDC_LISTEN=" + listen, "KUBECDC_LOG_FORMAT=text"}, settings)
	p.Cmd.Stdout, p.Cmd.Stderr = out, log
	if p.Child, err = child.Start(p.Cmd); err != nil {
		return nil, fmt.Errorf("start the exporter: %w", err)
	}
	return p, nil
}

// Ready requests /readyz once, and returns an error unless the answer is 200.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Listen+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", response.Status)
	}
	return nil
}
