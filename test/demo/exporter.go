package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// exporter is one running process of it.
type exporter struct {
	*child.Child
	cmd    *exec.Cmd
	listen string
	log    string // file of its output, which later processes add to
}

func buildExporter(ctx context.Context, binary string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "kubecdc/cmd/exporter").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the exporter: %w\n%s", err, out)
	}
	return nil
}

const (
	topicPrefix = "kubecdc"
	clusterName = "demo"
	resources   = "configmaps,pods,deployments.apps,*.example.com"
)

// settings are all that the demo sets; the rest are the defaults.
func (k *stack) settings() []string {
	return []string{
		"KUBECONFIG=" + k.kube.Kubeconfig,
		"KUBECDC_CLUSTER=" + clusterName,
		"KUBECDC_RESOURCES=" + resources,
		"KUBECDC_SINK=kafka",
		"KUBECDC_KAFKA_BROKERS=" + k.brokers,
		"KUBECDC_KAFKA_TOPIC_PREFIX=" + topicPrefix,
		"KUBECDC_CHECKPOINT=" + k.checkpointURL(),
		"KUBECDC_BATCH_MAX_CHANGES=100", // so that the progress bar has something to show
		"KUBECDC_LEASE_DURATION=3s",     // so that nobody waits long for the one that is killed
	}
}

func (k *stack) startExporter() (*exporter, error) {
	listen, err := servers.FreeAddress()
	if err != nil {
		return nil, err
	}
	e := &exporter{listen: listen, log: filepath.Join(k.folder(), "exporter.log")}
	out, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the exporter's log: %w", err)
	}
	defer out.Close()
	e.cmd = exec.Command(k.binary, "run")
	e.cmd.Env = append(child.Environ(), k.settings()...)
	e.cmd.Env = append(e.cmd.Env, "KUBECDC_LISTEN="+listen, "KUBECDC_LOG_FORMAT=text")
	e.cmd.Stdout, e.cmd.Stderr = out, out
	if e.Child, err = child.Start(e.cmd); err != nil {
		return nil, fmt.Errorf("start the exporter: %w", err)
	}
	return e, nil
}

func (e *exporter) pid() int { return e.cmd.Process.Pid }

// stop ends the process as an orchestrator does: SIGTERM, and after a while kill -9.
func (e *exporter) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.Done():
	case <-time.After(10 * time.Second):
		e.Kill()
	}
}

// ready requests /readyz once. It returns nil for 200, otherwise an error with what is wrong.
func (e *exporter) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.listen+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", resp.Status)
	}
	return nil
}

// awaitReady polls until the exporter is ready, has ended, or ctx ends.
func (e *exporter) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		last := e.ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-e.Done():
			return errExited
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

var errExited = errors.New("the exporter has ended")

// logTail is the end of the exporter's log, for errors.
func (e *exporter) logTail() string {
	const lines = 15
	text, err := os.ReadFile(e.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
