package e2e

import (
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// While nothing changes of what is exported, one batch an interval tells how far all streams are, and each stream is told
// of in time. What is not exported changes, so that there is something to tell.
func TestAnIdleExporterWritesOnceAnInterval(t *testing.T) {
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
			if len(told[kind.ID()]) < 3 {
				return false, nil
			}
		}
		return true, nil
	})
	close(stop)
	<-done
	log := w.Read(t)
	var last time.Time
	n := 0
	for _, c := range log.Controls {
		if c.Type != change.ControlBatch || c.Changes > 0 || len(c.Positions) == 0 || framed(log, c.Batch) {
			continue
		}
		at := time.UnixMilli(c.TimeMs)
		if between := at.Sub(last); between < interval*9/10 {
			t.Errorf("batch %d of positions alone comes %s after the one before", c.Batch, between)
		}
		for _, p := range c.Positions {
			if waited := at.Sub(p.Time); waited > interval*11/10 {
				t.Errorf("batch %d: the position of %s waited for %s", c.Batch, p.Stream, waited)
			}
		}
		last, n = at, n+1
	}
	t.Logf("%d batches of positions alone", n)
}

// watermarks gives when each stream was told of.
func watermarks(log *Log) map[string][]time.Time {
	times := map[string][]time.Time{}
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
