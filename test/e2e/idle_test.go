package e2e

import (
	"testing"
	"time"

	"kubecdc/change"
)

// While no exported object changes, one batch per interval reports all positions, and each stream is reported in time. Objects that
// are not exported change, so that positions move.
func TestAnIdleExporterWritesOnceAnInterval(t *testing.T) {
	t.Parallel()
	const interval = 2 * time.Second
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	w.Writer(t, Kinds).Fill(5)
	kinds := []Kind{ConfigMaps, Deployments, Roles, Widgets}
	e := StartExporter(t, "an idle exporter", w.With("KUBECDC_WATERMARK_INTERVAL", interval.String(), "KUBECDC_RESOURCES", Resources(kinds)))
	e.AwaitReady(t)
	stop := w.Writer(t, []Kind{Secrets}).Start(20)
	Await(t, "three watermarks of each stream", func() (bool, error) {
		reported := watermarks(w.Read(t))
		for _, kind := range kinds {
			if len(reported[kind.Stream()]) < 3 {
				return false, nil
			}
		}
		return true, nil
	})
	stop()
	log := w.Read(t)
	var first, last time.Time
	n := 0
	for _, c := range log.Controls {
		if c.Type != change.ControlBatch || c.Changes > 0 || len(c.Positions) == 0 || framed(log, c.Batch) {
			continue
		}
		written := time.UnixMilli(c.TimeMs)
		if n++; n == 1 {
			first = written
		}
		last = written
	}
	intervals := float64(last.Sub(first)) / float64(interval)
	t.Logf("%d batches of positions alone in %.1f intervals", n, intervals)
	if float64(n) > 1.5*intervals+2 {
		t.Error("there are more batches than intervals")
	}
	e.stop(t)
	frozenServersAreNamed(t, w)
}

// frozenServersAreNamed demands that an idle exporter with default intervals names a server that does not answer.
func frozenServersAreNamed(t *testing.T, w *World) {
	t.Helper()
	proxies, env := w.Proxied(t)
	w.Env = env
	e := StartExporter(t, "one that has nothing to write", w.With("KUBECDC_LEASE_DURATION", "10s", "KUBECDC_WATERMARK_INTERVAL", "1m",
		"KUBECDC_RESOURCES", Resources([]Kind{Widgets}))).AwaitReady(t)
	for _, server := range []struct{ part, proxy string }{{"sink", "kafka"}, {"checkpoint", "postgres"}} {
		proxies[server.proxy].Freeze()
		e.awaitWrong(t, server.part+": no answer since ")
		e.awaitLogged(t, "no answer yet", "dependency="+server.part)
		must(t, proxies[server.proxy].Restore())
		e.AwaitReady(t)
	}
}

// watermarks returns the times at which each stream's position was reported.
func watermarks(log *Log) map[change.StreamID][]time.Time {
	times := map[change.StreamID][]time.Time{}
	for _, c := range log.Controls {
		if c.Type == change.ControlWatermark {
			times[c.Stream] = append(times[c.Stream], time.UnixMilli(c.TimeMs))
		}
	}
	return times
}

// framed reports whether a batch has other control records than watermarks.
func framed(log *Log, batch uint64) bool {
	for _, c := range log.Controls {
		if c.Batch == batch && c.Type != change.ControlBatch && c.Type != change.ControlWatermark {
			return true
		}
	}
	return false
}
