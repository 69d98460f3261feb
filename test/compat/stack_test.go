package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

const clusterName = "compat"

// stack is what the exporters run between.
type stack struct {
	kube     *servers.Kubernetes
	kafka    *servers.Kafka
	sql      *servers.Postgres
	registry *servers.Registry
	cluster  dynamic.Interface
	writer   *e2e.Writer
	live     objects                  // what the cluster holds, as it was last listed
	dir      string                   // for files of this run
	binary   string                   // the exporter's
	running  map[string]*e2e.Exporter // the exporters, by the prefix of their topics
}

func startStack(t *testing.T) *stack {
	s := &stack{running: map[string]*e2e.Exporter{}, registry: &servers.Registry{}, dir: t.TempDir(), binary: e2e.Binary(t)}
	var err error
	if slices.Contains(long, inAvro) {
		missing, err := servers.Install(t.Context(), func(line string) { say("%s", line) }, servers.RegistryPart)
		must(t, err)
		if len(missing) > 0 {
			t.Fatalf("servers are missing: %s", missing)
		}
		s.registry, err = servers.StartRegistry(t.Context())
		must(t, err)
	}
	say("start the servers")
	s.kafka, s.sql = servers.SharedKafka(t), servers.SharedPostgres(t)
	s.kube, err = servers.StartKubernetes(t.Context(), servers.KubernetesOptions{CompactionInterval: time.Hour, // the history is recorded
		Audit: &servers.AuditOptions{Level: "Metadata", File: auditFile}})
	must(t, err)
	s.cluster = dynamic.NewForConfigOrDie(s.kube.Config)
	s.writer = e2e.NewWriter(t, s.kube.Config, rand.Uint64(), kinds)
	s.writer.Names = 40
	s.tellWho(t)
	return s
}

func (s *stack) brokers() string { return strings.Join(s.kafka.Brokers, ",") }

// settings returns the settings of a log's exporter.
func (s *stack) settings(log topics) map[string]string {
	settings := map[string]string{
		"KUBECONFIG":                 s.kube.Kubeconfig,
		"KUBECDC_CLUSTER":            clusterName,
		"KUBECDC_RESOURCES":          e2e.Resources(append(kinds, e2e.Widgets)),
		"KUBECDC_SINK":               "kafka",
		"KUBECDC_KAFKA_BROKERS":      s.brokers(),
		"KUBECDC_KAFKA_TOPIC_PREFIX": log.Prefix,
		"KUBECDC_CHECKPOINT":         "sqlite:" + filepath.Join(s.dir, log.Prefix+".db"),
		"KUBECDC_WATERMARK_INTERVAL": "1s",
	}
	if log.Prefix == plain.Prefix {
		settings["KUBECDC_AUDIT_FILES"] = filepath.Join(s.kube.Dir, auditFile)
	}
	if log.Codec != "" {
		settings["KUBECDC_KAFKA_COMPRESSION"] = log.Codec
	}
	switch log.Prefix {
	case withSchema.Prefix:
		settings["KUBECDC_ENCODING"] = "debezium-schema"
	case asObjects.Prefix:
		settings["KUBECDC_ENCODING"] = "object"
	case inAvro.Prefix:
		settings["KUBECDC_ENCODING"], settings["KUBECDC_SCHEMA_REGISTRY_URL"] = "avro", s.registry.URL
	}
	return settings
}

// export starts an exporter, and returns once it has the first list.
func (s *stack) export(t *testing.T, log topics) {
	e := e2e.StartExporter(t, "the exporter of "+log.Prefix, s.settings(log))
	s.running[log.Prefix] = e
	e.AwaitReady(t)
}

func (s *stack) stopExporters(logs []topics) {
	for _, log := range logs {
		s.running[log.Prefix].Kill()
	}
}

func (s *stack) world(log topics) *e2e.World {
	return &e2e.World{Kube: s.kube, Kafka: s.kafka, Prefix: log.Prefix}
}

// output runs a program to its end, and returns what it writes. An error has the last lines of what it complained about.
func output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	p, err := start(dir, env, name, args...)
	if err != nil {
		return nil, err
	}
	return p.wait(ctx)
}

// program is a running one of a consumer.
type program struct {
	*child.Child
	cmd         *exec.Cmd
	out, errors child.Output
}

func start(dir string, env []string, name string, args ...string) (p *program, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p = &program{cmd: exec.Command(name, args...)}
	p.cmd.Env = append(child.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errors
	p.Child, err = child.Start(p.cmd)
	return p, err
}

func (p *program) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
	}
	if err := p.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(p.cmd.Path), err, gist(p.errors.String()))
	}
	return []byte(p.out.String()), nil
}

// stop ends a program by SIGTERM.
func (p *program) stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop %s: %w", filepath.Base(p.cmd.Path), ctx.Err())
	}
}

func env(settings map[string]string) (list []string) {
	for name, value := range settings {
		list = append(list, name+"="+value)
	}
	return list
}
