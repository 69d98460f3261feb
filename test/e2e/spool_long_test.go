package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// The broker is stopped for a minute, or for KUBECDC_TEST_OUTAGE, under 200 changes of 4 KB a second. Meanwhile etcd is compacted,
// the API server restarts twice, and the exporter is killed five times. After each fault it has to catch up before etcd forgets.
func TestSlowTheBrokerIsStoppedForLong(t *testing.T) {
	servers.Slow(t)
	w := NewFragileWorld(t)
	InstallWidgets(t, w.Kube.Config)
	env := ownSpool(t, w.Env)
	var writers []*Writer
	for i, kinds := range [][]Kind{{ConfigMaps}, {Secrets}, {Deployments}, {Roles, Widgets}} {
		writers = append(writers, NewWriter(t, w.Kube.Config, uint64(i), kinds))
		writers[i].Names, writers[i].Pad = 100, 4000
		writers[i].Fill(20)
	}
	all := w.Writer(t, Kinds)
	e := StartExporter(t, "the first", env).AwaitReady(t)
	w.AwaitComplete(t, all, Kinds)
	w.Kafka.Kill()
	stop := startAll(writers, 50)
	before, began := made(writers), time.Now()
	e = sinkIsAway(t, w, e, env)
	taken, outage := made(writers)-before, time.Since(began)
	bytes := e.Metric(t, "kubecdc_spool_bytes", "")
	must(t, w.Kafka.Start(context.Background()))
	back := time.Now()
	e.awaitLogged(t, "the sink has all that was in the spool")
	if took := time.Since(back); took > outage+30*time.Second { // longer than it was written. The sink may be asked only after half a minute
		t.Errorf("the spool was forwarded in %s", took)
	}
	t.Logf("away for %s: %d changes, %.0f a second, %.0f bytes each in the spool; forwarded in %s, with %.0f changes a second meanwhile",
		outage.Round(time.Second), taken, float64(taken)/outage.Seconds(), bytes/float64(taken), time.Since(back).Round(time.Second),
		float64(made(writers)-before-taken)/time.Since(back).Seconds())
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, all, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// sinkIsAway causes random faults while the broker is stopped. It returns the last exporter.
func sinkIsAway(t *testing.T, w *World, e *Exporter, env map[string]string) *Exporter {
	outage := time.Minute
	if text := os.Getenv("KUBECDC_TEST_OUTAGE"); text != "" {
		var err error
		outage, err = time.ParseDuration(text)
		must(t, err)
	}
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	const kills, restarts = 5, 2
	faults := make([]bool, kills+restarts) // true for a restart of the API server
	faults[0], faults[1] = true, true
	rand.Shuffle(len(faults), func(i, k int) { faults[i], faults[k] = faults[k], faults[i] })
	compact := time.NewTicker(time.Minute)
	defer compact.Stop()
	last, err := w.Kube.Revision(t.Context())
	must(t, err)
	next := time.NewTicker(outage / time.Duration(len(faults)+1))
	defer next.Stop()
	for len(faults) > 0 {
		select {
		case <-compact.C: // like the API server: everything older than a minute. Changes that no exporter could read yet must not be lost
			if read, _ := e.hasRead(versions(last)); !read {
				continue
			}
			must(t, w.Kube.Compact(t.Context(), last))
			last, err = w.Kube.Revision(t.Context())
			must(t, err)
		case <-next.C:
			if restarts := faults[0]; restarts {
				must(t, w.Kube.RestartAPIServer(t.Context()))
			} else {
				e.Kill()
				e = StartExporter(t, "goes on", env)
			}
			faults = faults[1:]
		}
	}
	e.AwaitReady(t)
	<-next.C
	return e
}

// versions returns a version for each stream, all at one revision.
func versions(revision int64) map[change.StreamID]change.ResourceVersion {
	all := map[change.StreamID]change.ResourceVersion{}
	for _, kind := range Kinds {
		all[kind.Stream()] = change.ResourceVersion(fmt.Sprint(revision))
	}
	return all
}

func startAll(writers []*Writer, perSecond int) (stop func()) {
	var stops []func()
	for _, w := range writers {
		stops = append(stops, w.Start(perSecond))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func made(writers []*Writer) (n int64) {
	for _, w := range writers {
		n += w.Made.Load()
	}
	return n
}
