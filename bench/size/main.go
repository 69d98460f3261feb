// Command size measures what a change of each resource takes in the embedded log. A real kube-apiserver gets what kubelets,
// controllers and the scheduler write, one resource after another, and the tables of the file are measured after each. Its arguments are resources, for these alone.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"kubecdc/internal/sqlitefile"
	"kubecdc/test/child"
	"kubecdc/test/exporter"
	"kubecdc/test/servers"
)

// The go command that runs it passes no SIGTERM on.
func init() { child.EndWithParent() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kube, err := servers.StartKubernetes(ctx, servers.KubernetesOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = kube.Stop() }()
	folder, err := os.MkdirTemp("", "size")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	client, err := kubernetes.NewForConfig(kube.Config)
	if err != nil {
		return err
	}
	l := &load{api: client.RESTClient()}
	if len(os.Args) > 2 && os.Args[1] == "record" {
		return l.record(ctx, os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "watch" {
		return l.watch(ctx)
	}
	if err := l.makeNodes(ctx); err != nil {
		return err
	}
	binary, path := filepath.Join(folder, "exporter"), filepath.Join(folder, "log.db")
	if err := exporter.Build(ctx, binary); err != nil {
		return err
	}
	settings := []string{"KUBECONFIG=" + kube.Kubeconfig, "KUBECDC_SINK=sqlite", "KUBECDC_CHECKPOINT=sqlite:" + path,
		"KUBECDC_RESOURCES=nodes,pods,events,leases.coordination.k8s.io,deployments.apps,replicasets.apps"}
	e, err := exporter.Start(binary, settings, nil, os.Stderr)
	if err != nil {
		return err
	}
	defer e.Kill()
	for e.Ready(ctx) != nil && ctx.Err() == nil && e.Running() {
		time.Sleep(100 * time.Millisecond)
	}
	return l.measure(ctx, path)
}

// measure prints a row for each resource.
func (l *load) measure(ctx context.Context, path string) error {
	file, err := sqlitefile.Share(ctx, path)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := sizeOf(ctx, file)
	if err != nil {
		return err
	}
	fmt.Println("| resource | changes | bytes a change | changes a batch | bytes a batch | control records | bytes of one |\n|---|--:|--:|--:|--:|--:|--:|")
	for _, p := range l.phases() {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], p.resource) {
			continue
		}
		if err := p.write(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := l.awaitLogged(ctx, file, p.resource); err != nil {
			return err
		}
		after, err := sizeOf(ctx, file)
		if err != nil {
			return err
		}
		after.print(p.name, before)
		before = after
	}
	return nil
}

// awaitLogged waits until the log has the last write of a resource.
func (l *load) awaitLogged(ctx context.Context, file *sqlitefile.File, resource string) error {
	const statement = `select coalesce(max(cast(version as integer)), 0) from log_positions p join log_streams s on s.id = p.stream
		join log_resources r on r.id = s.resource where r.resource = ?`
	for position := int64(0); position < l.last.Load(); time.Sleep(100 * time.Millisecond) {
		if err := file.DB().QueryRowContext(ctx, statement, resource).Scan(&position); err != nil {
			return err
		}
	}
	return nil
}

// size is how many rows the tables have, and how many bytes their pages and those of their indexes.
type size struct{ changes, batches, controls, changeBytes, batchBytes, controlBytes int64 }

func sizeOf(ctx context.Context, file *sqlitefile.File) (s size, err error) {
	const statement = `select (select count(*) from log_changes), (select count(*) from log_batches), (select count(*) from log_controls),
		sum(pgsize) filter (where tbl_name in ('log_changes', 'log_objects')),
		sum(pgsize) filter (where tbl_name = 'log_batches'), sum(pgsize) filter (where tbl_name = 'log_controls')
		from dbstat join sqlite_schema using (name)`
	err = file.DB().QueryRowContext(ctx, statement).Scan(&s.changes, &s.batches, &s.controls, &s.changeBytes, &s.batchBytes, &s.controlBytes)
	return s, err
}

func (s size) print(name string, from size) {
	each := func(bytes, n int64) float64 { return float64(bytes) / float64(max(1, n)) }
	changes, batches, controls := s.changes-from.changes, s.batches-from.batches, s.controls-from.controls
	fmt.Printf("| %s | %d | %.0f | %.1f | %.0f | %d | %.0f |\n", name, changes, each(s.changeBytes-from.changeBytes, changes),
		each(changes, batches), each(s.batchBytes-from.batchBytes, batches), controls, each(s.controlBytes-from.controlBytes, controls))
}
