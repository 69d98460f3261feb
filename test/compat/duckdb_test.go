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

	"k8s.io/client-go/dynamic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// DuckDB reads the tables in Postgres, and the lines of a replay that was written twice, by the statements of docs/dashboards.md. Its changes
// are those of etcd's history, each once, and the objects that they leave are the cluster's.
func TestDuckDBReadsTheLog(t *testing.T) {
	if only := os.Getenv("KUBECDC_TEST_COMPAT"); only != "all" && only != "duckdb" {
		t.Skip("it installs DuckDB: make compat ONLY=duckdb runs it")
	}
	packages, err := pythonPackages(t.Context(), t.TempDir(), "duckdb")
	must(t, err)
	w := e2e.NewPostgresWorld(t, servers.PostgresOptions{})
	kinds := []e2e.Kind{e2e.ConfigMaps, e2e.Pods}
	w.Env = w.With("KUBECDC_RESOURCES", e2e.Resources(kinds))
	writer := w.Writer(t, kinds).Fill(20)
	before := liveNow(t, w.Kube, kinds)
	e2e.StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	began, err := w.Kube.Revision(t.Context())
	must(t, err)
	writer.Run(400)
	w.AwaitComplete(t, writer, kinds)
	want := before
	for _, kind := range kinds {
		events, err := w.Kube.EtcdHistory(t.Context(), "/registry/"+kind.GVR.Resource+"/", began+1)
		must(t, err)
		for _, e := range events {
			want = append(want, fmt.Sprintf("%s %s %d", kind.GVR.Resource, strings.TrimPrefix(e.Key, "/registry/"+kind.GVR.Resource+"/"), e.Revision))
		}
	}
	slices.Sort(want)
	dir := t.TempDir()
	for range 2 {
		lines, err := e2e.Command(t, w.Env, "replay", "--from", "start", "--to-stdout", "--execute").Output()
		must(t, err)
		file, err := os.OpenFile(filepath.Join(dir, "changes.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = file.Write(lines)
		must(t, err)
		must(t, file.Close())
	}
	for _, recipe := range []string{"duckdb/postgres.sql", "duckdb/lines.sql"} {
		for _, name := range []string{recipe, "duckdb/objects.sql", "python/lake.py"} {
			text := strings.NewReplacer("postgres://kubecdc@db/kubecdc", w.Postgres.URL, "2026-11-01", "2000-01-01").Replace(read(name))
			must(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(text), 0o600))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		out, err := output(ctx, dir, []string{"PYTHONPATH=" + packages, "HOME=" + dir}, "python3", filepath.Join(dir, "lake.py"), dir, filepath.Base(recipe), "objects.sql")
		must(t, err)
		var got struct{ Changes, Objects []string }
		must(t, json.Unmarshal(bytes.TrimSpace(out), &got))
		slices.Sort(got.Changes)
		slices.Sort(got.Objects)
		if live := liveNow(t, w.Kube, kinds); !slices.Equal(got.Objects, live) {
			t.Errorf("%s has the objects\n%q, want\n%q", recipe, got.Objects, live)
		}
		if !slices.Equal(got.Changes, want) {
			t.Errorf("%s has %d changes, want %d\n%q\n%q", recipe, len(got.Changes), len(want), got.Changes, want)
		}
		t.Logf("%s: %d changes, %d objects", recipe, len(got.Changes), len(got.Objects))
	}
}

// liveNow lists the cluster's objects with their versions.
func liveNow(t *testing.T, k *servers.Kubernetes, kinds []e2e.Kind) (all []string) {
	t.Helper()
	for _, kind := range kinds {
		list, err := dynamic.NewForConfigOrDie(k.Config).Resource(kind.GVR).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, o := range list.Items {
			all = append(all, fmt.Sprintf("%s %s/%s %s", kind.GVR.Resource, o.GetNamespace(), o.GetName(), o.GetResourceVersion()))
		}
	}
	slices.Sort(all)
	return all
}
