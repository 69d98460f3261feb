package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/test/child"
	"kubecdc/test/exporter"
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
	live     objects                 // what the cluster holds, as it was last listed
	dir      string                  // for files of this run
	binary   string                  // the exporter's
	running  map[string]*child.Child // the exporters, by the prefix of their topics
}

func startStack(ctx context.Context) (*stack, error) {
	parts := []servers.Part{servers.PostgresPart, servers.KafkaPart, servers.KubernetesPart}
	if slices.Contains(long, inAvro) {
		parts = append(parts, servers.RegistryPart)
	}
	missing, err := servers.Install(ctx, func(line string) { say("%s", line) }, parts...)
	if err != nil {
		return nil, err
	}
	if missing.Any() {
		return nil, fmt.Errorf("servers are missing: %s", missing)
	}
	say("start the servers")
	s := &stack{running: map[string]*child.Child{}, registry: &servers.Registry{}}
	group, parallel := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		s.kube, err = servers.StartKubernetes(parallel, servers.KubernetesOptions{Audit: &servers.AuditOptions{Level: "Metadata", File: auditFile}})
		return err
	})
	group.Go(func() (err error) {
		s.kafka, err = servers.StartKafka(parallel, servers.KafkaOptions{})
		return err
	})
	group.Go(func() (err error) {
		s.sql, err = servers.StartPostgres(parallel, servers.PostgresOptions{NoFsync: true})
		return err
	})
	if slices.Contains(parts, servers.RegistryPart) {
		group.Go(func() (err error) {
			s.registry, err = servers.StartRegistry(parallel)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.dir = filepath.Join(s.kube.Dir, "compat")
	s.binary = filepath.Join(s.dir, "exporter")
	config := rest.CopyConfig(s.kube.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return acting{next} })
	if s.cluster, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return s, errors.Join(os.MkdirAll(s.dir, 0o755), exporter.Build(ctx, s.binary), s.tellWho(ctx))
}

func (s *stack) brokers() string { return strings.Join(s.kafka.Brokers, ",") }

// settings are those of the exporter of a log.
func (s *stack) settings(log topics) []string {
	settings := []string{
		"KUBECONFIG=" + s.kube.Kubeconfig,
		"KUBECDC_CLUSTER=" + clusterName,
		"KUBECDC_RESOURCES=pods,configmaps," + widgets.GroupResource().String(),
		"KUBECDC_SINK=kafka",
		"KUBECDC_KAFKA_BROKERS=" + s.brokers(),
		"KUBECDC_KAFKA_TOPIC_PREFIX=" + log.Prefix,
		"KUBECDC_CHECKPOINT=sqlite:" + filepath.Join(s.dir, log.Prefix+".db"),
	}
	if log.Prefix == plain.Prefix {
		settings = append(settings, "KUBECDC_AUDIT_FILES="+filepath.Join(s.kube.Dir, auditFile))
	}
	if log.Codec != "" {
		settings = append(settings, "KUBECDC_KAFKA_COMPRESSION="+log.Codec)
	}
	switch log.Prefix {
	case withSchema.Prefix:
		settings = append(settings, "KUBECDC_ENCODING=debezium-schema")
	case asObjects.Prefix:
		settings = append(settings, "KUBECDC_ENCODING=object")
	case inAvro.Prefix:
		settings = append(settings, "KUBECDC_ENCODING=avro", "KUBECDC_SCHEMA_REGISTRY_URL="+s.registry.URL)
	}
	return settings
}

// export starts an exporter, and returns once it has the first list.
func (s *stack) export(ctx context.Context, log topics) error {
	path := filepath.Join(s.dir, log.Prefix+".log")
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	process, err := exporter.Start(s.binary, s.settings(log), out, out)
	if err != nil {
		return err
	}
	s.running[log.Prefix] = process.Child
	return servers.Until(ctx, "the exporter of "+log.Prefix+" to be ready, see "+path, func() (bool, error) { return process.Ready(ctx) == nil, nil })
}

func (s *stack) stopExporters(logs []topics) {
	for _, log := range logs {
		s.running[log.Prefix].Kill()
	}
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
