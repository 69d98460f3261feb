package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/test/servers"
)

// An exporter with a dead letter, a frozen sink, a restart and a gap is scraped all the time. Prometheus' engine then shows data in
// each panel of the dashboard.
func TestTheDashboardShowsTroubles(t *testing.T) {
	t.Parallel()
	kinds := []Kind{ConfigMaps, Roles}
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	proxy, err := servers.NewProxy(w.Postgres.Address)
	must(t, err)
	t.Cleanup(func() { proxy.Close() })
	sink := strings.Replace(w.Postgres.URL, w.Postgres.Address, proxy.Address, 1)
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_SINK_POSTGRES", sink,
		"KUBECDC_PROOF_INTERVAL", "1s", "KUBECDC_BACKFILL_MAX_QPS", "20")
	writer, scrapes := w.Writer(t, kinds), t.TempDir()
	writer.Fill(10)

	e := StartExporter(t, "an exporter", w.Env)
	stop := e.scrape(t, scrapes)
	e.AwaitReady(t)
	writer.Run(40)
	addUnreadable(t, w)
	e.awaitMetric(t, "kubecdc_dead_letters_total", Roles.ID(), 1)
	e.awaitMetric(t, "kubecdc_proofs_total", "equal", 1)
	proxy.Freeze()
	writer.Run(20)
	e.awaitMetric(t, "kubecdc_stream_lag_seconds", "", 8)
	if up := e.Metric(t, "kubecdc_dependency_up", `"sink"`); up != 0 {
		t.Error("a frozen sink is up")
	}
	proxy.Cut()
	e.awaitMetric(t, "kubecdc_session_failures_total", "", 1)
	must(t, proxy.Restore())
	e.awaitWell(t, "the sink was frozen")
	e.Signal(syscall.SIGTERM)
	e.Wait(t)
	stop()

	writer.Run(40)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	proxy.Cut()
	e = StartExporter(t, "the next exporter", w.Env)
	stop = e.scrape(t, scrapes)
	e.awaitMetric(t, "kubecdc_stream_lag_seconds", "", 1)
	if up := e.Metric(t, "kubecdc_dependency_up", `"sink"`); up != 0 || e.Metric(t, "kubecdc_slot_held", "") != 0 {
		t.Error("a sink that the start waits for is up")
	}
	must(t, proxy.Restore())
	e.awaitMetric(t, "kubecdc_gaps_total", `complete="true"`, 1)
	writer.Run(20)
	w.AwaitComplete(t, writer, kinds)
	stop()
	evaluate(t, scrapes, "kubecdc_watch_restarts_total", "kubecdc_stream_refused", "kubecdc_ignored_updates_total",
		"kubecdc_proof_differences", "kubecdc_standby", "kubecdc_checkpoint_pending_objects")
}

// addUnreadable adds an object that no record can have, since its name is too long.
func addUnreadable(t *testing.T, w *World) {
	t.Helper()
	role := sample(Roles, strings.Repeat("n", 1100), 0, 0)
	_, err := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(Roles.GVR).Namespace("default").Create(context.Background(), role,
		metav1.CreateOptions{})
	must(t, err)
}

// awaitMetric waits until a metric has at least a value.
func (e *Exporter) awaitMetric(t *testing.T, name, labels string, least float64) {
	t.Helper()
	Await(t, fmt.Sprintf("%s{%s} to be %v", name, labels, least), func() (bool, error) {
		text, err := e.get("/metrics")
		return err == nil && strings.Contains(text, name) && e.Metric(t, name, labels) >= least, nil
	})
}

// scrape writes the exporter's metrics to files, four times a second, until stop is called.
func (e *Exporter) scrape(t *testing.T, folder string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticker := time.NewTicker(250 * time.Millisecond); ctx.Err() == nil; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
			text, err := e.get("/metrics")
			if err != nil {
				continue // it does not listen yet, or has ended
			}
			file := filepath.Join(folder, fmt.Sprint(time.Now().UnixMilli())+".prom")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// evaluate demands that every query of the dashboard has a result, and more than zeros, unless its metric may be zero.
func evaluate(t *testing.T, scrapes string, mayBeZero ...string) {
	t.Helper()
	c := exec.Command("go", "test", "-count=1", "-v", "-run", "TestTheDashboardShowsSomething", ".")
	c.Dir, c.Env = "../prometheus", append(os.Environ(), "GOWORK=off", "KUBECDC_TEST_SCRAPES="+scrapes,
		"KUBECDC_TEST_MAY_BE_ZERO="+strings.Join(mayBeZero, " "))
	out, err := c.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}
