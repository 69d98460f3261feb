package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// lake is what DuckDB reads by the statements of docs/dashboards.md, and the cluster that it is of.
type lake struct {
	*e2e.World
	dir, packages string
	writer        *e2e.Writer
	changes       []string // that the log must have: the objects of its first list, and what etcd's history has since then
	began         int64
}

var lakeKinds = []e2e.Kind{e2e.ConfigMaps, e2e.Pods}

func newLake(t *testing.T, w *e2e.World) *lake {
	if only := os.Getenv("KUBECDC_TEST_COMPAT"); only != "all" && only != "duckdb" {
		t.Skip("it installs DuckDB, and Iceberg's connector: make compat ONLY=duckdb runs it")
	}
	l := &lake{World: w, dir: t.TempDir()}
	var err error
	l.packages, err = pythonPackages(t.Context(), t.TempDir(), "duckdb")
	must(t, err)
	w.Env = w.With("KUBECDC_RESOURCES", e2e.Resources(lakeKinds))
	l.writer = w.Writer(t, lakeKinds).Fill(20)
	l.changes = l.live(t)
	e2e.StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	l.began, err = w.Kube.Revision(t.Context())
	must(t, err)
	return l
}

// live lists the cluster's objects with their versions.
func (l *lake) live(t *testing.T) (all []string) {
	for _, kind := range lakeKinds {
		list, err := dynamic.NewForConfigOrDie(l.Kube.Config).Resource(kind.GVR).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, o := range list.Items {
			all = append(all, fmt.Sprintf("%s %s/%s %s", kind.GVR.Resource, o.GetNamespace(), o.GetName(), o.GetResourceVersion()))
		}
	}
	slices.Sort(all)
	return all
}

// complete waits until the log is complete, and reads etcd's history.
func (l *lake) complete(t *testing.T) {
	l.AwaitComplete(t, l.writer, lakeKinds)
	for _, kind := range lakeKinds {
		prefix := "/registry/" + kind.GVR.Resource + "/"
		events, err := l.Kube.EtcdHistory(t.Context(), prefix, l.began+1)
		must(t, err)
		for _, e := range events {
			l.changes = append(l.changes, fmt.Sprintf("%s %s %d", kind.GVR.Resource, strings.TrimPrefix(e.Key, prefix), e.Revision))
		}
	}
	slices.Sort(l.changes)
}

// place writes a file of the page, with this test's places in place of the page's.
func (l *lake) place(t *testing.T, name string, places ...string) string {
	path := filepath.Join(l.dir, filepath.Base(name))
	must(t, os.WriteFile(path, []byte(strings.NewReplacer(places...).Replace(read(name))), 0o600))
	return path
}

// ask returns what DuckDB has of the changes, and of the objects that they leave.
func (l *lake) ask(t *testing.T, recipe string) (changes, objects []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := output(ctx, l.dir, []string{"PYTHONPATH=" + l.packages, "HOME=" + l.dir}, "python3", l.place(t, "python/lake.py"), l.dir, recipe,
		l.place(t, "duckdb/objects.sql"))
	must(t, err)
	var got struct{ Changes, Objects []string }
	must(t, json.Unmarshal(bytes.TrimSpace(out), &got))
	slices.Sort(got.Changes)
	slices.Sort(got.Objects)
	return got.Changes, got.Objects
}

func (l *lake) wantAll(t *testing.T, recipe string, changes, objects []string) {
	if live := l.live(t); !slices.Equal(objects, live) {
		t.Errorf("%s has the objects\n%q, want\n%q", recipe, objects, live)
	}
	if !slices.Equal(changes, l.changes) {
		t.Errorf("%s has %d changes, want %d\n%q\n%q", recipe, len(changes), len(l.changes), changes, l.changes)
	}
	t.Logf("%s: %d changes, %d objects", recipe, len(changes), len(objects))
}

// DuckDB reads the tables in Postgres, and the lines of a replay that was written twice. Its changes are those of etcd's history, each once,
// and the objects that they leave are the cluster's.
func TestDuckDBReadsTheLog(t *testing.T) {
	l := newLake(t, e2e.NewPostgresWorld(t, servers.PostgresOptions{}))
	l.writer.Run(400)
	l.complete(t)
	var lines []byte
	for range 2 {
		some, err := e2e.Command(t, l.Env, "replay", "--from", "start", "--to-stdout", "--execute").Output()
		must(t, err)
		lines = append(lines, some...)
	}
	must(t, os.WriteFile(filepath.Join(l.dir, "changes.jsonl"), lines, 0o600))
	for _, recipe := range []string{"duckdb/postgres.sql", "duckdb/lines.sql"} {
		changes, objects := l.ask(t, l.place(t, recipe, "postgres://kubecdc@db/kubecdc", l.Postgres.URL, "2026-11-01", "2000-01-01"))
		l.wantAll(t, recipe, changes, objects)
	}
}

// Iceberg's sink connector appends the topics to a table, though it is killed. DuckDB reads the table's files.
func TestDuckDBReadsWhatIcebergKeeps(t *testing.T) {
	l := newLake(t, e2e.NewWorld(t))
	base := filepath.Join(os.TempDir(), "kubecdc-compat")
	must(t, os.MkdirAll(base, 0o755))
	connect, err := jars(t.Context(), base, "connect")
	must(t, err)
	iceberg, err := jars(t.Context(), base, "iceberg")
	must(t, err)
	warehouse, plugins := filepath.Join(l.dir, "warehouse"), filepath.Join(l.dir, "plugins")
	must(t, os.Mkdir(plugins, 0o755))
	must(t, os.Symlink(iceberg, filepath.Join(plugins, "iceberg")))
	jdbc := "jdbc:postgresql://" + l.Postgres.Address + "/kubecdc"
	java := func(libs string, args ...string) []string {
		return javaArgs(reading{dir: l.dir}, []string{libs}, args...)
	}
	_, err = output(t.Context(), l.dir, nil, "java", java(iceberg, l.place(t, "java/Changes.java"), jdbc, "kubecdc", "secret-pw", "file:"+warehouse)...)
	must(t, err)
	control := l.Prefix + "-iceberg"
	client, err := kgo.NewClient(kgo.SeedBrokers(l.Kafka.Brokers...))
	must(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, control)
	must(t, err)
	listen, err := servers.FreeAddress()
	must(t, err)
	worker := l.place(t, "connect/worker.properties", "kafka-1:9092", l.Kafka.Brokers[0], "/opt/connect-plugins", plugins, "/var/lib/connect/offsets",
		filepath.Join(l.dir, "offsets"), "org.apache.kafka.connect.json.JsonConverter\n", "org.apache.kafka.connect.json.JsonConverter\nlisteners=http://"+listen+"\n")
	connector := l.place(t, "connect/iceberg.properties", "kubecdc\\\\.", l.Prefix+"\\\\.", "name=changes", "name="+control, "=iceberg-control", "="+control,
		"jdbc:postgresql://db.example.com/warehouse", jdbc, "user=warehouse", "user=kubecdc", "=secret", "=secret-pw", "=60000", "=2000",
		"/var/lib/warehouse", warehouse)
	run := func() *program {
		p, err := start(l.dir, nil, "java", java(connect, "org.apache.kafka.connect.cli.ConnectStandalone", worker, connector)...)
		must(t, err)
		return p
	}
	recipe := l.place(t, "duckdb/iceberg.sql", "/var/lib/warehouse", warehouse)
	await := func(p *program, what string, enough func([]string) bool) (changes, objects []string) {
		e2e.Await(t, what, func() (bool, error) {
			if !p.Running() || strings.Contains(p.errors.String(), "Task is being killed") {
				return false, fmt.Errorf("%w: %s", errSinkFailed, gist(p.errors.String()))
			}
			if files, _ := filepath.Glob(filepath.Join(warehouse, "kubernetes/changes/data/*.parquet")); len(files) == 0 {
				return false, nil
			}
			changes, objects = l.ask(t, recipe)
			return enough(changes), nil
		})
		return changes, objects
	}
	p := run()
	l.writer.Run(200)
	await(p, "the first changes in Iceberg's table", func(changes []string) bool { return len(changes) > len(l.changes) })
	l.writer.Run(100)
	p.Kill()
	p = run()
	defer p.Kill()
	l.writer.Run(100)
	l.complete(t)
	changes, objects := await(p, "all changes in Iceberg's table", func(changes []string) bool { return len(changes) >= len(l.changes) })
	l.wantAll(t, "duckdb/iceberg.sql", changes, objects)
}
