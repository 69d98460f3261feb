package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// While nothing changes of what is exported, one batch an interval tells how far all streams are, and each stream is told
// of in time. What is not exported changes, so that there is something to tell.
func TestAnIdleExporterWritesOnceAnInterval(t *testing.T) {
	t.Parallel()
	const interval = 2 * time.Second
	w := NewWorld(t, servers.KafkaOptions{})
	InstallWidgets(t, w.Kube.Config)
	w.Writer(t, Kinds).Fill(5)
	kinds := []Kind{ConfigMaps, Deployments, Roles, Widgets}
	e := StartExporter(t, "an idle exporter", w.With("KUBECDC_WATERMARK_INTERVAL", interval.String(), "KUBECDC_RESOURCES", Resources(kinds)))
	e.AwaitReady(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { w.Writer(t, []Kind{Secrets}).Until(stop, 20); close(done) }()
	Await(t, 90*time.Second, "three watermarks of each stream", func() (bool, error) {
		told := watermarks(w.Read(t))
		for _, kind := range kinds {
			if len(told[kind.Stream()]) < 3 {
				return false, nil
			}
		}
		return true, nil
	})
	close(stop)
	<-done
	log := w.Read(t)
	var last time.Time
	n, early, late := 0, 0, 0
	for _, c := range log.Controls {
		if c.Type != change.ControlBatch || c.Changes > 0 || len(c.Positions) == 0 || framed(log, c.Batch) {
			continue
		}
		at := time.UnixMilli(c.TimeMs)
		if at.Sub(last) < interval/2 {
			early++
		}
		if slices.ContainsFunc(c.Positions, func(p change.Position) bool { return at.Sub(p.Time) > interval*3/2 }) {
			late++
		}
		last, n = at, n+1
	}
	t.Logf("%d batches of positions alone, %d early, %d late", n, early, late)
	if early > n/2 || late > n/2 { // on a machine that others load some are
		t.Error("the intervals are not kept")
	}
	e.Signal(syscall.SIGTERM)
	if code := e.Wait(t, 25*time.Second); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
	frozenServersAreNamed(t, w)
}

// frozenServersAreNamed: an idle exporter with default intervals soon names a server that does not answer.
func frozenServersAreNamed(t *testing.T, w *World) {
	t.Helper()
	proxies, _ := w.Proxied(t)
	e := StartExporter(t, "one that has nothing to write", w.With("KUBECDC_LEASE_DURATION", "10s", "KUBECDC_WATERMARK_INTERVAL", "1m",
		"KUBECDC_RESOURCES", Resources([]Kind{Widgets}), "KUBECDC_CHECKPOINT", strings.Replace(w.Postgres.URL, w.Postgres.Address, proxies["postgres"].Address, 1)))
	e.AwaitReady(t)
	for _, server := range []struct {
		part           string
		freeze, resume func() error
		within         time.Duration
	}{
		{"sink", w.Kafka.Pause, w.Kafka.Resume, 15 * time.Second},
		{"checkpoint", func() error { proxies["postgres"].Freeze(); return nil }, proxies["postgres"].Restore, 10 * time.Second},
	} {
		must(t, server.freeze())
		frozen := servers.StartClock()
		Await(t, 60*time.Second, "/readyz to name the "+server.part, func() (bool, error) {
			return !e.Ready() && strings.Contains(e.Wrong(), server.part+": no answer since "), nil
		})
		took := frozen.Passed()
		t.Logf("%s frozen, said after %s: %s", server.part, took.Round(10*time.Millisecond), e.Wrong())
		if took > server.within {
			t.Errorf("that is later than %s", server.within)
		}
		e.wantLogged(t, "no answer yet", "dependency="+server.part)
		must(t, server.resume())
		e.AwaitReady(t)
	}
}

// watermarks returns when each stream was told of.
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
