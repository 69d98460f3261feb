package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// The exporter is stopped or killed in the first seconds of an outage, and etcd forgets what it has read. The next one has all of
// it in its spool.
func TestSlowAnExporterEndsWhenAnOutageBegins(t *testing.T) {
	servers.Slow(t)
	withSpool(t, endsEarly)
}

func endsEarly(t *testing.T, w *World, sink *servers.Proxy, env map[string]string) {
	kinds := []Kind{ConfigMaps, Roles}
	env = withSettings(env, "KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds).Fill(30)
	for i, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL} {
		e := StartExporter(t, fmt.Sprint("exporter ", i), env).AwaitReady(t)
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

// An exporter of two slots is killed when an outage begins, before one of them has read a change. The next one can't open the sink. It
// reads that slot's changes all the same, and the API server forgets them before the sink is back.
func TestAQuietSlotReadsOnAfterAKill(t *testing.T) {
	withSpool(t, quietSlotReadsOn)
}

func quietSlotReadsOn(t *testing.T, w *World, sink *servers.Proxy, env map[string]string) {
	busy, quiet := []Kind{ConfigMaps}, []Kind{Roles}
	kinds := slices.Concat(busy, quiet)
	const slots = 2
	slotOf := func(k Kind) int { return change.SlotOf(k.Stream(), slots) }
	if slotOf(ConfigMaps) == slotOf(Roles) {
		t.Fatal("both resources are in one slot")
	}
	// Without these settings the quiet slot soon has a batch, too.
	env = withSettings(env, "KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_SLOTS", fmt.Sprint(slots), "KUBECDC_WATERMARK_INTERVAL", "10m",
		"KUBECDC_PROOF_INTERVAL", "0")
	writer, later := w.Writer(t, busy), w.Writer(t, quiet)
	writer.Fill(30)
	later.Fill(30)
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	sink.Freeze()
	writer.Run(1)
	Await(t, "the spools of both slots", func() (bool, error) {
		found, err := filepath.Glob(filepath.Join(env["KUBECDC_SPOOL_DIR"], "*", "slot-?.db"))
		return len(found) == slots, err
	})
	e.Kill()
	e = StartExporter(t, "the next", env)
	later.Run(60)
	e.awaitSpooled(t, later.Marks(quiet))
	must(t, w.Kube.Compact(t.Context(), 0))
	must(t, w.Kube.RestartAPIServer(t.Context())) // its cache forgets, too
	must(t, sink.Restore())
	Judge(t, w.Kube, w.AwaitComplete(t, later, kinds), w.Prefix, kinds).Demand(t, 0)
	Await(t, "the spools to be removed", func() (bool, error) {
		left, err := filepath.Glob(filepath.Join(env["KUBECDC_SPOOL_DIR"], "*", "slot-?.db"))
		return len(left) == 0, err
	})
	e.stop(t)
}
