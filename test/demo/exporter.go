package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kubecdc/test/exporter"
)

// process is a running exporter.
type process struct {
	*exporter.Process
	log string // file of its output, which later processes add to
}

const (
	topicPrefix = "kubecdc"
	clusterName = "demo"
	resources   = "configmaps,pods,deployments.apps,*.example.com"
)

// settings are all settings that the demo sets. All others have their defaults.
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
		"KUBECDC_SPOOL_DIR=" + filepath.Join(k.folder(), "spool"),
	}
}

func (k *stack) startExporter() (*process, error) {
	p := &process{log: filepath.Join(k.folder(), "exporter.log")}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the exporter's log: %w", err)
	}
	defer out.Close()
	p.Process, err = exporter.Start(k.binary, k.settings(), out, out)
	return p, err
}

func (e *process) pid() int { return e.Cmd.Process.Pid }

// stop ends the process as an orchestrator does: SIGTERM, and after a while kill -9.
func (e *process) stop() {
	_ = e.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.Done():
	case <-time.After(10 * time.Second):
		e.Kill()
	}
}

var errExited = errors.New("the exporter has ended")

// logTail is the end of the exporter's log, for errors.
func (e *process) logTail() string {
	const lines = 15
	text, err := os.ReadFile(e.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
