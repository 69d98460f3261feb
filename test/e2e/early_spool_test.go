package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"kubecdc/test/servers"
)

// The exporter is stopped or killed in the first seconds of an outage, and etcd forgets what it has read. The next one has all of
// it in its spool.
func TestSlowAnExporterEndsWhenAnOutageBegins(t *testing.T) {
	servers.Slow(t)
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		w := NewWorld(t)
		lane := w.Kafka.Lane(t)
		endsEarly(t, w, lane, ownSpool(t, w.With("KUBECDC_KAFKA_BROKERS", lane.Address)))
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		w := NewPostgresWorld(t, servers.PostgresOptions{})
		w.separateCheckpoint(t)
		proxies, env := w.Proxied(t)
		endsEarly(t, w, proxies["sink"], ownSpool(t, env))
	})
}

func endsEarly(t *testing.T, w *World, sink *servers.Proxy, env map[string]string) {
	kinds := []Kind{ConfigMaps, Roles}
	env = withSettings(env, "KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds)
	writer.Fill(30)
	for i, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL} {
		e := StartExporter(t, fmt.Sprint("exporter ", i), env)
		e.AwaitReady(t)
		w.AwaitComplete(t, writer, kinds)
		if i%2 == 0 {
			sink.Freeze()
		} else {
			sink.Cut()
		}
		writer.Run(1)
		if end == syscall.SIGKILL { // it has begun nothing for what it reads later
			Await(t, "a spool", func() (bool, error) {
				found, err := filepath.Glob(filepath.Join(env["KUBECDC_SPOOL_DIR"], "*", "slot-0.db"))
				return len(found) > 0, err
			})
		} else {
			writer.Run(60)
			Await(t, "the changes to be read", func() (bool, error) { // on a slow machine they are in the spool already
				return e.Metric(t, "kubecdc_buffer_changes", "") >= 50 || e.Metric(t, "kubecdc_spool_batches", "") > 1, e.ended()
			})
		}
		e.Signal(end)
		if code := e.Wait(t); end == syscall.SIGTERM && code != 0 {
			t.Errorf("it ends with %d:\n%s", code, e.Tail(3000))
		}
		must(t, w.Kube.Compact(t.Context(), 0))
		must(t, sink.Restore())
	}
	e := StartExporter(t, "the last", env)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.stop(t)
}
